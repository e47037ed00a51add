"""Ranges of a stream read again by a second cursor of a subscription, one range after the other: what a backfill asks for.

The second cursor has a name that stays, so one consumer reads all ranges of a backfill; the live cursor is never touched.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.log_events import emit
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor

    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession
    from relaybox.subscriptions.approvals import PinnedSubscription

LONGEST_OWN_NAME = 44
"""What a subscription's name may take of the name of its second cursor, which has at most 60 characters with its number."""


@dataclass(frozen=True)
class ReplayRequest:
    """A range of a stream to read again.

    Attributes:
        start, through: earliest, latest, a stream position, or a time of delivery in the store. A stream position at the end is
        in the range, a time is not.
        cursor: the second cursor's name; made at its first range.
        asked_by: the same asker asking again does not start what was read for it.
        on_behalf_of: the person, for the record.
        stream: the subscription must read it; None: it may read any.
        pinned: the subscription that was approved; None: the one that has the name now.
    """

    subscription: str
    start: str
    through: str
    reason: str
    cursor: str
    asked_by: str
    rows_per_second: int | None = None
    on_behalf_of: str = ""
    stream: str | None = None
    pinned: PinnedSubscription | None = None


@dataclass(frozen=True)
class StartedReplay:
    """What the store said to a request.

    Attributes:
        state: begun; joined (another request has this range read now); waits (for the range that `waits_for` tells); done (read for this
            asker already); empty (nothing was delivered between start and through).
        replay: the range's number; while it waits, that of the range that is read before it; None: it has none, or is empty.
        message_count, byte_count, estimated_seconds: None unless it was begun now.
    """

    state: str
    replay: int | None
    first_stream_position: int
    last_stream_position: int
    message_count: int | None
    byte_count: int | None
    estimated_seconds: float | None
    waits_for: str | None


@dataclass(frozen=True)
class ReplayProgress:
    """How far a range has been read, by the slowest lane of its cursor."""

    replayed_as: str
    first_stream_position: int
    last_stream_position: int
    done_stream_position: int
    leased_lanes: int
    moved_at: datetime | None
    is_done: bool
    is_cancelled: bool


def second_cursor(subscription: str) -> str:
    """The name of a subscription's second cursor, unless another one is asked for: no two subscriptions have the same.

    As relaybox_internal.second_cursor_name() has it, whose names with a number `relaybox replay --second-cursor` gives.
    """
    own = subscription
    if len(own) > LONGEST_OWN_NAME:
        own = f"{own[:35]}-{hashlib.sha256(own.encode()).hexdigest()[:8]}"
    return f"{own}.replay"


def ask_replay(store: Store, request: ReplayRequest) -> StartedReplay:
    """Has the second cursor read a range, or says what it reads before. Commits. To be repeated while the state is `waits`.

    Raises:
        NotSubscribed: also if the subscription does not read the stream of the request. Nothing is changed then.
        ApprovalOutdated: the subscription is not the pinned one.
        NoLongerKept, RequestRefused: no reason, an interval that is not over, or a name that is taken.
    """
    with store_session(store, f"replaying subscription {request.subscription}", application_name="relaybox replay") as session:
        session.value("select set_config('relaybox.on_behalf_of', %s, true)", request.on_behalf_of)
        asked = session.row(
            StartedReplay,
            "select * from relaybox_internal.ask_replay(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            *(request.subscription, request.cursor, request.start, request.through),
            *(request.reason, request.asked_by, request.rows_per_second),
            *(request.pinned or (None, None)),
        )
        if request.stream is not None:
            # asked last: its row is locked, so that the name stays with the subscription that the range was asked of
            _require_stream(session, store, request.subscription, request.stream)
        session.commit()
    return asked


def _require_stream(session: StoreSession, store: Store, subscription: str, stream: str) -> None:
    query = "select exists (select from relaybox.subscriptions s where s.subscription = %s and s.stream = %s)"
    if not session.value(query, subscription, stream):
        raise errors.NotSubscribed(f"store {store.name} has no subscription {subscription} to stream {stream}.")


_RANGE_OF_ASKER = """
select max(r.replay_range_id)
from relaybox_internal.replay_range r
join relaybox_internal.subscription s on s.subscription_id = r.subscription_id
join relaybox_internal.subscription parent on parent.subscription_id = s.replay_of
where parent.subscription = %s and s.subscription = %s and r.reason = %s and %s = any(r.asked_by)
"""


def find_asked_range(store: Store, request: ReplayRequest) -> int | None:
    """The newest range that the second cursor began for this asker and reason, also one that was read or cancelled. Reads only."""
    with store_session(store, f"looking for the replay of {request.asked_by}", application_name="relaybox replay") as session:
        found: int | None = session.value(_RANGE_OF_ASKER, request.subscription, request.cursor, request.reason, request.asked_by)
    return found


def read_progress(store: Store, replay: int) -> ReplayProgress:
    """How far a range has been read. Reads only."""
    with store_session(store, f"reading how far replay {replay} is", application_name="relaybox replay") as session:
        return session.row(ReplayProgress, "select * from relaybox_internal.replay_progress(%s)", replay)


@dataclass(frozen=True)
class ReplayStep:
    """How far a request has come.

    Attributes:
        state: waits (for the range of another request, by the same cursor), reads, done, or empty (nothing was delivered then).
        replay: the number of the range that is waited for or read; None: it has none, or nothing was delivered.
        progress: of the range, if it is read or done.
    """

    state: str
    replay: int | None
    progress: ReplayProgress | None = None

    @property
    def is_open(self) -> bool:
        return self.state in ("waits", "reads")


def advance_replay(store: Store, request: ReplayRequest, begun: int | None = None) -> ReplayStep:
    """Asks for the range, and says how far it is; one event. To be repeated while the step is open, whenever something may have changed.

    Safe to break off and to repeat, also two at once: the store remembers. Commits.

    Args:
        store: where the subscription is.
        request: what is to be read.
        begun: the range that an earlier step said it reads. It is not asked for again: nobody begins anew what was cancelled.

    Raises:
        RequestRefused: the second cursor was closed meanwhile, or the request makes no sense.
        NotSubscribed, NoLongerKept, ApprovalOutdated: as ask_replay.
    """
    if begun is None:
        asked = ask_replay(store, request)
        if asked.state == "waits":
            emit("replay_waits", subscription=request.subscription, cursor=request.cursor, behind=asked.waits_for)
            return ReplayStep("waits", asked.replay)
        if asked.replay is None:
            emit("replay_empty", subscription=request.subscription, start=request.start, through=request.through)
            return ReplayStep("empty", None)
        emit(
            "replay_begun",
            subscription=request.subscription,
            cursor=request.cursor,
            state=asked.state,
            stream_positions=f"{asked.first_stream_position}-{asked.last_stream_position}",
            messages="?" if asked.message_count is None else asked.message_count,
        )
        begun = asked.replay
    progress = read_progress(store, begun)
    if progress.is_cancelled and not progress.is_done:
        raise errors.RequestRefused(
            f"store {store.name}: the replay {request.cursor} was cancelled at stream position "
            f"{progress.done_stream_position} of {progress.last_stream_position}.",
            next_step="Who and why: select * from relaybox.consumer_action. Clear the run to replay its interval again.",
        )
    _emit_progress(request, progress)
    return ReplayStep("done" if progress.is_done else "reads", begun, progress)


@dataclass(frozen=True)
class OpenRange:
    """What a second cursor reads now: the number of its range (0: it was opened without one), and through which stream position."""

    replay: int
    done_stream_position: int


_OPEN_RANGES = """
select s.subscription, coalesce(newest.replay_range_id, 0), done.done_stream_position
from relaybox_internal.subscription s
cross join lateral (select relaybox_internal.replayed_through(s.subscription_id) as done_stream_position) done
left join lateral (
    select r.replay_range_id from relaybox_internal.replay_range r
    where r.subscription_id = s.subscription_id order by r.replay_range_id desc limit 1
) newest on true
where s.replay_of is not null and s.ended_at is null and done.done_stream_position < s.through_stream_position
"""


def read_open_ranges(cursor: Cursor) -> dict[str, OpenRange]:
    """What each second cursor of a store that has something left to read reads now, by its name. One query; reads only."""
    cursor.execute(_OPEN_RANGES)
    return {name: OpenRange(replay, done) for name, replay, done in cursor.fetchall()}


def _emit_progress(request: ReplayRequest, progress: ReplayProgress) -> None:
    emit(
        "replay_progress",
        subscription=request.subscription,
        cursor=progress.replayed_as,
        done=progress.done_stream_position - progress.first_stream_position + 1,
        of=progress.last_stream_position - progress.first_stream_position + 1,
        consumers=progress.leased_lanes,
    )
