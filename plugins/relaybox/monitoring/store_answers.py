"""What each store answers when it is asked how far its hops are: rows of sending_states.sql, receiving_states.sql and stream_states.sql.

Who asks which store when is decided in relaybox.monitoring.store_readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypedDict, TypeVar

from relaybox import errors
from relaybox.adoption.tables import AdoptedTableState, read_adopted
from relaybox.hops.changed_readers import find_changed_readers
from relaybox.retention.retiring import Backlog, RetiredHop, list_retired_hops, read_backlogs
from relaybox.stores.readers.failing_endpoints import FailingEndpoint, read_failing_endpoints
from relaybox.stores.readers.reader_problems import ReaderProblem, list_reader_problems
from relaybox.streams.topics import UnknownTopics, count_unknown_topics
from relaybox.verification.conservation import TopicAccount, read_accounts

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession

State = TypeVar("State")

UNROUTED_SEQS = 1_000_000
"""Unrouted topics are looked for among this many of an outbox's newest messages."""


class SendingState(NamedTuple):
    """How far a hop is, as its source knows it (sending_states.sql). Without its newest batch in the ledger, `planned_rows` is None."""

    planned_batch: int
    planned_position: int
    planned_rows: int | None
    planned_slices: int
    planned_at: datetime
    received_batch: int
    received_position: int
    processed_position: int | None
    settled_position: int
    waiting_count: int
    oldest_sent_at: datetime | None
    oldest_seconds: float | None
    driven: bool
    moved_by: str | None
    application: str | None


class ReceivingState(NamedTuple):
    """How far a hop is, as its destination knows it (receiving_states.sql); `due` is what the source had confirmed.

    Attributes:
        store_id: of the destination.
        source_id: of the store that the hop came from until now; None: not recorded yet.
    """

    generation: int
    published_batch: int
    published_plan_id: str | None
    published_position: int
    published_at: datetime | None
    copied_slices: list[int]
    copied_plan_ids: list[str]
    due_received: int
    due_unique: int
    store_id: str
    source_id: str | None


_RECEIVING_STATES = """
    select r.*, s.store_id::text, i.source_id::text
    from relaybox_internal.receiving_states(%s, %s) r
    cross join relaybox_internal.store s
    join relaybox_internal.hop_in i on i.hop = r.hop
"""


class StalledFields(TypedDict):
    """A StalledSender as JSON."""

    sender: str
    epoch: int
    reason: str


class StreamState(NamedTuple):
    """A StreamStatus as stream_states.sql gives it."""

    stream: str
    delivery_order: str
    last_stream_position: int
    decided_rows: int
    undecided_rows: int
    duplicate_count: int
    set_aside_count: int
    held_count: int
    stalled: list[StalledFields]


class Unrouted(NamedTuple):
    topic: str
    message_count: int
    first_sent_at: datetime


class ProviderDurability(NamedTuple):
    """That a provider makes commits of the store durable, and who said so; see durability in relaybox.yaml."""

    reason: str
    said_by: str
    said_at: datetime


@dataclass(frozen=True)
class StoreAnswer(Generic[State]):
    """What one store answered: a state per hop, or the error that it gave instead."""

    states: Mapping[str, State]
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    accounts: Mapping[str, tuple[TopicAccount, ...]] = field(default_factory=dict)
    unknown_topics: Mapping[str, UnknownTopics] = field(default_factory=dict)
    retired_hops: Mapping[str, RetiredHop] = field(default_factory=dict)
    unrouted: tuple[Unrouted, ...] = ()
    orphaned_hops: tuple[Backlog, ...] = ()
    provider_durability: ProviderDurability | None = None
    failing_endpoints: tuple[FailingEndpoint, ...] = ()
    adopted: tuple[AdoptedTableState, ...] = ()
    reader_problems: tuple[ReaderProblem, ...] = ()
    error: errors.RelayboxError | None = None


def ask_sending(session: StoreSession, store: Store, *, routes: Routes) -> StoreAnswer[SendingState]:
    """How far the hops are that leave a store, and what its outbox keeps beside them."""
    hops = [hop for hop in routes.hops if hop.source == store]
    states = read_sending(session, [hop.name for hop in hops])
    accounts = read_accounts(session, [hop for hop in hops if hop.upstream is None])
    unrouted = session.rows(Unrouted, "select * from relaybox_internal.unrouted_topics(%s)", UNROUTED_SEQS)
    orphaned_hops = tuple(hop for hop in read_backlogs(session, store, routes) if hop.keeps_messages)
    unknown = count_unknown_topics(session, hops, newest=UNROUTED_SEQS)
    answer = known_hops(states, store)
    return replace(
        answer,
        error=answer.error or _find_changed_outbox(session, store),
        accounts=accounts,
        unrouted=tuple(unrouted),
        orphaned_hops=orphaned_hops,
        unknown_topics=unknown,
        retired_hops=list_retired_hops(session, store, routes),
        provider_durability=session.row_if_any(ProviderDurability, _PROVIDER_DURABILITY),
        failing_endpoints=tuple(read_failing_endpoints(session)),
        adopted=read_adopted(session),
        reader_problems=list_reader_problems(session, store, routes),
    )


def read_sending(session: StoreSession, hops: Sequence[str]) -> dict[str, SendingState | None]:
    """How far these hops are, as their source knows them; None: it does not know the hop. In the session's transaction."""
    return _by_hop(hops, session.rows_by(SendingState, "hop", "select * from relaybox_internal.sending_states(%s)", list(hops)))


def read_receiving(session: StoreSession, confirmed: Mapping[str, int]) -> dict[str, ReceivingState | None]:
    """How far these hops are, as their destination knows them; None: it does not know the hop. In the session's transaction.

    Args:
        session: of the destination.
        confirmed: the batch of each hop that its source has confirmed.
    """
    found = session.rows_by(ReceivingState, "hop", _RECEIVING_STATES, list(confirmed), list(confirmed.values()))
    return _by_hop(confirmed, found)


def read_streams(session: StoreSession, hops: Sequence[str]) -> dict[str, StreamState]:
    """What the stream of each hop's log has decided, of the hops whose stream is registered. In the session's transaction."""
    return session.rows_by(StreamState, "hop", "select * from relaybox_internal.stream_states(%s)", list(hops))


def _by_hop(hops: Iterable[str], found: Mapping[str, State]) -> dict[str, State | None]:
    return {hop: found.get(hop) for hop in hops}


def _find_changed_outbox(session: StoreSession, store: Store) -> errors.OutboxChanged | None:
    """What each hop that reads the outbox is refused for (refuse_changed_xid.sql, hops.changed_readers)."""
    found = session.call("relaybox_internal.xid_default")
    if found == "pg_current_xact_id()":
        return find_changed_readers(session, store.name) or _find_sequence_set_back(session, store)
    return errors.OutboxChanged(
        f"store {store.name}: the default of relaybox.outbox.xid is {found or 'missing'}, not pg_current_xact_id(): messages that were "
        "sent since it was changed are never moved.",
        next_step=f"Run: relaybox init {store.name}",
    )


def _find_sequence_set_back(session: StoreSession, store: Store) -> errors.OutboxChanged | None:
    """Producers, or the next transfer, fail (refuse_stray_rows.sql)."""
    found = session.values("select defect from relaybox_internal.list_sequence_defects()")
    if not found:
        return None
    return errors.OutboxChanged(f"store {store.name}: {found[0]}.", next_step=f"Run: relaybox init {store.name}")


_PROVIDER_DURABILITY = """
select s.durability_reason as reason, s.durability_said_by as said_by, s.durability_said_at as said_at
from relaybox_internal.store s where s.durability = 'provider'
"""


def known_hops(states: Mapping[str, State | None], store: Store) -> StoreAnswer[State]:
    """What a store answered of hops; one that it does not know is an error."""
    strange = [hop for hop, state in states.items() if state is None]
    error = None
    if strange:
        error = errors.UnknownHop(f"store {store.name}: it does not know {', '.join(strange)}.", next_step="Run: relaybox init")
    return StoreAnswer({hop: state for hop, state in states.items() if state is not None}, error=error)
