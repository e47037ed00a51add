"""Hops and topics that stores still know and relaybox.yaml no longer has, and giving up what was not moved of them.

Taking a route out of the file stops its DAGs and nothing else, and taking a topic out of a route keeps what was not planned of it:
messages are kept until they are given up. That is done here, in the store that the hop leaves, and recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from relaybox.errors import ConfigurationError, HopChanged, RelayboxError
from relaybox.log_events import emit
from relaybox.stores.opening import store_session
from relaybox.stores.readers.orphaned_hops import OrphanedHop, list_orphaned_hops
from relaybox.streams.delivering import deliver_undriven

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Hop, Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class Backlog(OrphanedHop):
    """A hop that was left behind, and what it has not moved.

    Attributes:
        unsettled_count: messages in its batches that are not settled.
        waiting_count: messages that are in none of its batches.
        oldest_sent_at: of those that have not arrived; None if all have.
    """

    unsettled_count: int
    waiting_count: int
    oldest_sent_at: datetime | None

    @property
    def keeps_messages(self) -> bool:
        """Whether messages wait here that no transfer will move."""
        return self.unsettled_count > 0 or self.waiting_count > 0


def find_orphaned_hops(routes: Routes) -> tuple[tuple[Backlog, ...], dict[str, RelayboxError]]:
    """Asks every store of the file for hops that the file has not, retired ones included. Changes nothing.

    Returns:
        The hops of the stores that answered, and the errors of those that did not, by store.
    """
    found: list[Backlog] = []
    unanswered: dict[str, RelayboxError] = {}
    for store in routes.stores.values():
        try:
            found += _backlogs(store, routes)
        except RelayboxError as error:
            unanswered[store.name] = error
    return tuple(found), unanswered


def _backlogs(store: Store, routes: Routes) -> Iterator[Backlog]:
    with store_session(store, "asking which hops leave it", application_name="relaybox retire") as session:
        yield from read_backlogs(session, store, routes)


class RetiredHop(NamedTuple):
    """A hop that was retired and that relaybox.yaml has all the same: it moves nothing, and nobody keeps its messages."""

    hop: str
    retired_at: datetime
    retired_by: str
    retired_reason: str

    @property
    def what(self) -> str:
        return (
            f"Hop {self.hop} of relaybox.yaml was retired by {self.retired_by} at {self.retired_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: "
            f"{self.retired_reason}. It moves nothing, and its undelivered messages were discarded."
        )

    @property
    def next_step(self) -> str:
        route = self.hop.rpartition("/")[0]
        return f"Take route {route} out of relaybox.yaml, or give it another name. Then run: relaybox init"

    def as_error(self, store: str) -> HopChanged:
        return HopChanged(f"store {store}: h{self.what[1:]}", next_step=self.next_step)


def list_retired_hops(session: StoreSession, store: Store, routes: Routes) -> dict[str, RetiredHop]:
    """The hops of relaybox.yaml that leave a store and were retired there, by name. In the session's transaction."""
    found = session.rows(
        RetiredHop,
        """
        select h.hop, h.retired_at, h.retired_by, h.retired_reason
        from relaybox_internal.hop_out h where h.hop = any(%s) and h.retired_at is not null order by h.hop
        """,
        [hop.name for hop in routes.hops if hop.source == store],
    )
    return {one.hop: one for one in found}


class _NotMoved(NamedTuple):
    unsettled_count: int
    waiting_count: int
    oldest_sent_at: datetime | None


def read_backlogs(session: StoreSession, store: Store, routes: Routes) -> Iterator[Backlog]:
    """The hops that leave a store and are of no route in the file, with what they have not moved; a retired hop has nothing that waits.

    Runs in the session's transaction.
    """
    hops = list_orphaned_hops(session, store, routes)
    not_moved = session.rows_by(_NotMoved, "hop", _NOT_MOVED, [hop.hop for hop in hops if hop.retired_at is None])
    for hop in hops:
        yield Backlog(**vars(hop), **not_moved.get(hop.hop, _NotMoved(0, 0, None))._asdict())


_NOT_MOVED = """
    select hop, planned_position - settled_position as unsettled_count, waiting_count, oldest_sent_at
    from relaybox_internal.sending_states(%s)
"""


def choose_orphaned_hops(name: str, orphaned_hops: Sequence[Backlog], routes: Routes) -> tuple[Backlog, ...]:
    """Those that a name means: one hop, or all hops of a route.

    Raises:
        ConfigurationError: the file has it, or no store knows it.
    """
    if any(name in (hop.name, hop.route) for hop in routes.hops):
        raise ConfigurationError(
            f"{name} is in {routes.path}: its messages are to be moved.", next_step="Take its route out of the file first."
        )
    chosen = tuple(hop for hop in orphaned_hops if name in (hop.hop, hop.hop.rpartition("/")[0]))
    if not chosen:
        known = ", ".join(hop.hop for hop in orphaned_hops) or "none"
        raise ConfigurationError(
            f"no store knows a hop {name}. Left behind by the file: {known}.", next_step="Run: relaybox retire"
        )
    return chosen


def refuse_hops_in_use(hops: Sequence[Backlog]) -> None:
    """Refuses to retire any of several hops while a store says that one of them is in use.

    A route is retired whole or not at all. The store asks again when it retires a hop: an init may run in between.

    Raises:
        HopChanged: the newest init or a driver has a relaybox.yaml with the hop.
    """
    used = [hop for hop in hops if hop.in_use is not None]
    if used:
        told = "; ".join(f"store {hop.store}: hop {hop.hop} is in use: {hop.in_use}" for hop in used)
        steps = dict.fromkeys(hop.in_use_next_step or "" for hop in used)
        raise HopChanged(f"{told}. Nothing was retired.", next_step=". ".join(steps))


def deliver_left_behind(store: Store) -> None:
    """Delivers what a driver published in a store and nobody will deliver once its hop is retired. Commits each decision; idempotent.

    Raises:
        StoreUnreachable, StoreUnusable, StoreNotInitialised: what was delivered stays so.
    """
    with store_session(store, "delivering what no driver delivers", application_name="relaybox retire") as session:
        deliver_undriven(session)


def retire_hop(store: Store, hop: str, *, reason: str, recorded_by: str) -> bool:
    """Records that the backlog of a hop is discarded; the hop moves nothing more. Commits; idempotent.

    Messages stay until no other hop and no subscription needs them. Messages at the destination do not change.

    Args:
        store: the one that the hop leaves.
        hop: its name.
        reason: why, for the ledger.
        recorded_by: who says so.

    Returns:
        False if it was retired before: by whom and why stays as it was.

    Raises:
        HopChanged: the newest init or a driver has a relaybox.yaml with the hop. Nothing was changed.
        UnknownHop: the hop does not leave the store.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing was changed.
    """
    with store_session(store, f"retiring hop {hop}", application_name="relaybox retire") as session:
        session.connection.autocommit = True
        retired = session.call("relaybox_internal.retire_hop", hop, reason, recorded_by)
    if retired:
        emit("hop_retired", hop=hop, store=store.name, reason=reason)
    return bool(retired)


@dataclass(frozen=True)
class UnroutedBacklog:
    """Messages of a topic that was taken from a hop before they were planned: kept in its source's outbox."""

    hop: str
    store: str
    topic: str
    message_count: int
    first_sent_at: datetime


def find_unrouted(hop: Hop) -> tuple[UnroutedBacklog, ...]:
    """What an outbox keeps of topics that a hop no longer has, or that no hop of the store ever had. Changes nothing.

    Reads the hop's backlog, and the outbox where topics have no hop.

    Raises:
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing is known.
    """
    with store_session(
        hop.source, f"asking what hop {hop.name} left in the outbox", application_name="relaybox retire"
    ) as source:
        query = "select topic, message_count, first_sent_at from relaybox_internal.unrouted_backlog(%s)"
        return tuple(source.rows(UnroutedBacklog, query, hop.name, hop=hop.name, store=hop.source.name))


def retire_topic(hop: Hop, topic: str, *, reason: str, recorded_by: str) -> bool:
    """Gives up what a hop has not moved of a topic that it no longer has. Commits; idempotent.

    What commits later is unrouted, and kept.

    Args:
        hop: the first hop of a route, which reads an outbox.
        topic: a topic that was taken from the route.
        reason: why, for the ledger.
        recorded_by: who says so.

    Returns:
        False if there was nothing to give up.

    Raises:
        HopChanged: the hop moves the topic.
        UnknownHop, StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing was changed.
    """
    with store_session(hop.source, f"retiring topic {topic} of hop {hop.name}", application_name="relaybox retire") as source:
        source.connection.autocommit = True
        piece_count = source.call("relaybox_internal.retire_topics", hop.name, [topic], reason, recorded_by)
    if piece_count:
        emit("topic_retired", hop=hop.name, store=hop.source.name, topic=topic, reason=reason)
    return bool(piece_count)
