"""The subscriptions of the stores and their replays, as on-call engineers see and steer them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from relaybox import errors
from relaybox.consumer.settings import SETTINGS, STATEMENT_TIMEOUT_SECONDS
from relaybox.stores.opening import store_session
from relaybox.stores.readers.reader_problems import ReaderProblem, list_reader_problems, may_list_problems
from relaybox.stores.sessions.connections import open_session
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Route, Routes, Store

LISTING = """
    with listed as materialized (
        select * from relaybox.subscriptions
    ), done as materialized (
        -- many subscriptions stand at one stream position: its message is read once
        select p.stream, p.done_stream_position, l.message_id::text
        from (select distinct stream, done_stream_position from listed) p
        join relaybox_internal.stream t on t.stream = p.stream
        cross join lateral relaybox_internal.log_position_at(t.stream_id, p.done_stream_position) m
        join relaybox_internal.log l on l.log_id = m.log_id and l.log_position = m.log_position
        where p.done_stream_position >= t.first_kept_stream_position
    )
    select s.subscription, s.stream, s.topic, s.lanes, s.replay_of, s.done_stream_position, s.last_stream_position,
        s.stream_positions_behind, s.replaying,
        s.leased_lanes, s.dead_letters, s.moved_at, s.lane_by, s.nack_limit, s.crash_limit, s.hold_sender, s.retry_seconds,
        s.lease_seconds, s.lane_stream_positions, d.message_id as done_message_id, s.dead_letter_stream_positions,
        s.detached_stream_positions, s.delayed, s.held_lanes, s.delayed_messages, s.due_at,
        array(
            select d.stream_position from relaybox_internal.subscription n
            join relaybox_internal.dead_letter d on d.subscription_id = n.subscription_id
            where n.subscription = s.subscription and n.ended_at is null
                and d.state in ('delayed', 'redriving') and d.reason = 'delayed'
            order by d.stream_position
        ) as delayed_stream_positions
    from listed s
    left join done d on d.stream = s.stream and d.done_stream_position = s.done_stream_position
    order by s.subscription
"""
"""The subscriptions of a store. Its cost follows the lanes that there are: each is looked up once."""


@dataclass(frozen=True)
class SubscriptionStatus:
    """One subscription; stream positions are those of its slowest lane, of all topics of the stream.

    Attributes:
        lane_stream_positions: how far each lane is done, in their order.
        done_message_id: of the message at `done_stream_position`; None where there is none, or where it is no longer kept.
        dead_letter_stream_positions: of the dead letters that wait for a decision.
        detached_stream_positions: stream positions that it has not read and that are in files: `relaybox attach` brings them back.
        delayed: hold, pass or ignore: what becomes of the messages behind one that is not due.
        held_lanes: lanes that wait until a delayed message is due.
        delayed_messages: messages that were passed, and come when they are due.
        due_at: when the next of both is due, as the newest fetches found; None: none is known.
        delayed_stream_positions: of the messages that were passed and are not acknowledged.
    """

    store: str
    subscription: str
    stream: str
    topic: str | None
    lanes: int
    replay_of: str | None
    done_stream_position: int
    last_stream_position: int
    stream_positions_behind: int
    replaying: bool
    leased_lanes: int
    dead_letters: int
    moved_at: datetime
    lane_by: str
    nack_limit: int
    crash_limit: int
    hold_sender: bool
    retry_seconds: int
    lease_seconds: int
    lane_stream_positions: list[int]
    done_message_id: str | None
    dead_letter_stream_positions: list[int]
    detached_stream_positions: int
    delayed: str
    held_lanes: int
    delayed_messages: int
    due_at: datetime | None
    delayed_stream_positions: list[int]


@dataclass(frozen=True)
class Replay:
    """A replay that was begun, or (dry run) would be: counts are estimates where a topic is filtered.

    Attributes:
        replayed_as: the cursor's name; None if nothing was begun, since the range is empty.
    """

    store: str
    replayed_as: str | None
    first_stream_position: int
    last_stream_position: int
    message_count: int
    byte_count: int
    estimated_seconds: float
    dry_run: bool

    @property
    def is_empty(self) -> bool:
        """Whether no stream position is in the range: then nothing was changed, dry run or not."""
        return self.last_stream_position < self.first_stream_position


def list_subscriptions(store: Store) -> list[SubscriptionStatus]:
    """The subscriptions of a store, replays included, by name."""
    with _session(store, "listing subscriptions") as session:
        return session.rows(SubscriptionStatus, LISTING, store=store.name)


def find_subscription(stores: Iterable[Store], name: str) -> tuple[Store, dict[str, errors.RelayboxError]]:
    """The store that has a subscription of this name, and by name the errors of stores that did not answer: they may have one too.

    Raises:
        NotSubscribed: none has.
        ConfigurationError: several have; name one with --store.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: none of those that answered has, and this one did not answer.
    """
    known: dict[str, tuple[Store, list[str]]] = {}
    unanswered: dict[str, errors.RelayboxError] = {}
    for store in stores:
        try:
            known[store.name] = store, [one.subscription for one in list_subscriptions(store)]
        except errors.RelayboxError as error:
            unanswered[store.name] = error
    having = [store for store, names in known.values() if name in names]
    if len(having) == 1:
        return having[0], unanswered
    if having:
        raise errors.ConfigurationError(
            f"subscription {name} is in the stores {', '.join(store.name for store in having)}.",
            next_step="Name one with --store.",
        )
    if unanswered:
        first = next(iter(unanswered.values()))
        raise type(first)(
            Exception.__str__(first),
            next_step=f"{first.next_step} If another store has subscription {name}, name it: --store.".lstrip(),
        )
    listed = ", ".join(f"{store}: {', '.join(names)}" for store, (_, names) in known.items() if names) or "none"
    made = " The first run of a version makes its subscription: relaybox derive ROUTE." if name.startswith("derive.") else ""
    raise errors.NotSubscribed(
        f"there is no subscription {name} in the stores {', '.join(known)}.", next_step=f"There are: {listed}.{made}"
    )


def read_reader_problems(store: Store, routes: Routes) -> tuple[ReaderProblem, ...]:
    """What is wrong with the readers of a store, as relaybox.yaml and the store have them."""
    with _session(store, "comparing its readers with relaybox.yaml") as session:
        return list_reader_problems(session, store, routes)


def list_problems_of_route(routes: Routes, route: Route) -> list[ReaderProblem]:
    """What is wrong with the readers of a route's stream, in the stores that it arrives in."""
    stores = dict.fromkeys(hop.destination for hop in route.hops)
    return [one for store in stores for one in read_reader_problems(store, routes) if one.stream == route.stream]


def find_reader_problem(store: Store, routes: Routes, subscription: str) -> ReaderProblem | None:
    """What is wrong with one subscription; None: nothing, or the login only consumes and may not read it.

    In a session as a consumer has it: through a pooler, and with no right but to consume.
    """
    connection = open_session(
        store.service,
        application_name=f"relaybox consumer {subscription}",
        settings=SETTINGS,
        statement_timeout_seconds=STATEMENT_TIMEOUT_SECONDS,
        accepts_pooler=True,
    )
    with closing(StoreSession(connection, store.name, f"comparing subscription {subscription} with relaybox.yaml")) as session:
        if not may_list_problems(session):
            return None
        return next((one for one in list_reader_problems(session, store, routes) if one.subscription == subscription), None)


def require_of_stream(store: Store, subscription: str, stream: str) -> None:
    """Refuses a subscription that the store has not, or that reads another stream. NotSubscribed."""
    if (subscription, stream) not in {(one.subscription, one.stream) for one in list_subscriptions(store)}:
        raise errors.NotSubscribed(f"store {store.name} has no subscription {subscription} to stream {stream}.")


def subscribe(store: Store, subscription: str, source: str, start: str) -> int:
    """Subscribes to a stream or topic; returns the first stream position. AlreadySubscribed, UnknownStream."""
    return int(_call(store, "subscribing", "relaybox.subscribe", subscription, source, start))


def replay(
    store: Store,
    subscription: str,
    start: str,
    *,
    reason: str,
    through: str | None = None,
    second_cursor: bool = False,
    rows_per_second: int | None = None,
    dry_run: bool = False,
) -> Replay:
    """Reads again from `start` (earliest, a stream position, a time); with a second cursor up to `through`, leaving the live cursor alone.

    Raises:
        NotSubscribed, NoLongerKept, RequestRefused: no such start, or one in the future.
    """
    with _session(store, f"replaying subscription {subscription}") as session:
        found = session.row(
            Replay,
            "select * from relaybox.replay(%s, %s, %s, %s, %s, %s, %s)",
            *(subscription, start, reason, through, second_cursor, rows_per_second, dry_run),
            store=store.name,
            dry_run=dry_run,
        )
        session.commit()
    return found


def count_replay(store: Store, subscription: str, start: str, *, through: str | None, rows_per_second: int | None) -> Replay:
    """What a replay with a second cursor would read. Changes nothing; for logins that may only read, too.

    Raises:
        as replay().
    """
    with _session(store, f"counting a replay of subscription {subscription}") as session:
        found = session.row(
            Replay,
            "select * from relaybox.count_replay(%s, %s, %s, %s)",
            *(subscription, start, through, rows_per_second),
            store=store.name,
            dry_run=True,
        )
        session.commit()
    return found


def cancel_replay(store: Store, subscription: str, *, reason: str) -> None:
    """Ends a replay, by the name of its cursor or of the subscription that went back."""
    _call(store, f"cancelling a replay of {subscription}", "relaybox.cancel_replay", subscription, reason)


def _session(store: Store, activity: str) -> AbstractContextManager[StoreSession]:
    return store_session(store, activity, application_name="relaybox subscriptions")


def _call(store: Store, activity: str, function: str, *arguments: object) -> Any:
    """The value of one call, committed."""
    with _session(store, activity) as session:
        value = session.call(function, *arguments)
        session.commit()
    return value
