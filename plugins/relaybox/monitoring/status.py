"""How far every hop is, measured from the ledgers of its two stores. Reads only.

A store that can't be asked hides nothing but itself: its hops are shown with what the other store knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from relaybox import errors
from relaybox.hops.continuity import HistoryGap
from relaybox.monitoring.store_answers import ProviderDurability, ReceivingState, SendingState, StreamState
from relaybox.monitoring.store_readings import StoreReading, start_reading
from relaybox.retention.retiring import Backlog, RetiredHop
from relaybox.stores.readers.failing_endpoints import FailingEndpoint
from relaybox.stores.readers.reader_problems import ReaderProblem
from relaybox.streams.topics import UnknownTopics
from relaybox.verification.conservation import TopicAccount, find_broken
from relaybox.verification.reliability import Delivery, compose, measure_delivery

if TYPE_CHECKING:
    from relaybox.routes import Hop, Route, Routes
    from relaybox.stores.parallel_reads.exchange import ParallelRead


@dataclass(frozen=True)
class OpenBatch:
    """A batch that is planned and not published: the next transfer resumes it."""

    batch: int
    row_count: int
    slice_count: int
    missing_slices: tuple[int, ...]


@dataclass(frozen=True)
class LastBatch:
    """The newest batch that was planned; `published_at` is None until it has arrived.

    `moved_by` made the newest attempt at it, as the Spark application `application`, or with threads.
    """

    batch: int
    row_count: int
    planned_at: datetime
    published_at: datetime | None
    moved_by: str | None
    application: str | None


@dataclass(frozen=True)
class HopStatus:
    """One hop. A field is None when the store that knows it could not be asked.

    Attributes:
        sent: committed messages of the hop's topics (or of the log it reads) that its batches hold or will hold.
        received: messages published at the destination; what the source has confirmed when the destination is silent.
        lag_messages: sent and not received.
        lag_seconds: age of the oldest of these, by the source's clock; None when there is none.
        driven: whether a transfer of this hop is running.
        processed_through: position through which the subscriptions of policy `processed` acknowledged; None: the hop asks none.
        settled_through: position through which the route's policy holds.
        delivery: R and UR over what is due, i.e. through the newest confirmed batch: what is on its way is lag, not loss. None when
            the source lost history: then it is not known what was due.
        history_gap: a store of the hop that lost history, and how that shows; None: the ledgers of both are one history.
        stream: what the destination made of the log that the hop brought.
        account: of a hop that reads an outbox: what became of its newest committed messages, by topic (G12).
        errors: what its stores said instead of answering.
        unknown_topics: those that relaybox.yaml gives the hop and its source does not move yet; None: there are none.
        retired: by whom and why its backlog was given up; it moves nothing more, and no batch of it is open. None: it was not.
    """

    hop: Hop
    sent: int | None
    received: int | None
    lag_messages: int | None
    lag_seconds: float | None
    driven: bool | None
    last_batch: LastBatch | None
    open_batch: OpenBatch | None
    processed_through: int | None
    settled_through: int | None
    delivery: Delivery | None
    stream: StreamStatus | None
    account: tuple[TopicAccount, ...] | None
    errors: tuple[errors.RelayboxError, ...]
    history_gap: HistoryGap | None = None
    unknown_topics: UnknownTopics | None = None
    retired: RetiredHop | None = None


@dataclass(frozen=True)
class StalledSender:
    """A sender whose messages wait in a log: its holdback or its set of indexes is full."""

    sender: str
    epoch: int
    reason: str


@dataclass(frozen=True)
class StreamStatus:
    """What a store decided about the log of one hop.

    Attributes:
        last_stream_position: of the stream: stream positions 1 to it are filled, of all its logs.
        decided_rows: of this log, so far; undecided_rows: published and not decided on yet.
        duplicate_count, set_aside_count, held_count: of the decided ones; set aside are those that are dead letters now.
        stalled: senders of the log's origin.
    """

    stream: str
    delivery_order: str
    last_stream_position: int
    decided_rows: int
    undecided_rows: int
    duplicate_count: int
    set_aside_count: int
    held_count: int
    stalled: tuple[StalledSender, ...]

    @property
    def uniqueness(self) -> Fraction:
        """UR of what the producers sent: rows that are no duplicates / all rows."""
        return Fraction(self.decided_rows - self.duplicate_count, self.decided_rows) if self.decided_rows else Fraction(1)


@dataclass(frozen=True)
class RouteStatus:
    """A whole route: the products of its hops' R and UR, None while a hop could not be measured."""

    route: Route
    sent: int | None
    received: int | None
    delivery: Delivery | None


_LIST_TO_DISCARD = "They are kept meanwhile. To list the command that discards them, run: relaybox retire"


@dataclass(frozen=True)
class UnroutedTopic:
    """Committed messages of a topic that no hop of their store reads.

    Attributes:
        nearest: a topic of the store's routes with nearly this name.
        routed_in_file: a route of relaybox.yaml that begins at the store has the topic.
        retired_route: of these routes one that was retired there; None: none was.
        routed_from: routes that have it and begin at another store, as (route, store).
    """

    store: str
    topic: str
    message_count: int
    first_sent_at: datetime
    nearest: str | None
    routed_in_file: bool = False
    routed_from: tuple[tuple[str, str], ...] = ()
    retired_route: str | None = None

    @property
    def next_step(self) -> str:
        if self.retired_route is not None:
            return (
                f"Route {self.retired_route} of relaybox.yaml has the topic and was retired. Give it another name and run: relaybox init. "
                "The messages are kept meanwhile."
            )
        if self.routed_in_file:
            return "relaybox.yaml routes it, the store does not know that yet. Run: relaybox init"
        if self.routed_from:
            named = ", ".join(f"{route} begins at {origin}" for route, origin in self.routed_from)
            return (
                f"Topic {self.topic} is in a route, and only what is sent at the store where a route begins is moved: {named}. "
                f"Send there. Else to move these, add topic {self.topic} to a route that begins at {self.store} and run: relaybox init. "
                f"{_LIST_TO_DISCARD}"
            )
        correction = f"Did you mean topic {self.nearest}? Correct the producer. Else " if self.nearest else ""
        text = f"{correction}to move them, add topic {self.topic} to a route in relaybox.yaml and run: relaybox init. {_LIST_TO_DISCARD}"
        return text[0].upper() + text[1:]


@dataclass(frozen=True)
class AdoptedTable:
    """A table of an application whose rows are sent; the fields of AdoptedTableState, with the store."""

    store: str
    table_name: str
    state: str
    waiting_count: int
    unmapped_count: int
    adopted_at: datetime
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """All hops and routes, at nearly one moment.

    Attributes:
        orphaned_hops: hops that relaybox.yaml no longer contains and that keep messages.
        adopted_tables: tables of applications whose rows are sent, of all stores that answered.
        provider_durability: the stores whose provider makes commits durable, by name.
        failing_endpoints: webhooks and sinks of Kafka whose messages wait, since their endpoint takes none.
        reader_problems: readers that get nothing, or less than relaybox.yaml and their subscription say, of all stores that answered.
        errors: the stores that did not answer, or not fully, by name.
    """

    measured_at: datetime
    hops: tuple[HopStatus, ...]
    routes: tuple[RouteStatus, ...]
    unrouted: tuple[UnroutedTopic, ...]
    orphaned_hops: tuple[Backlog, ...]
    errors: Mapping[str, errors.RelayboxError]
    provider_durability: Mapping[str, ProviderDurability] = field(default_factory=dict)
    failing_endpoints: tuple[FailingEndpoint, ...] = ()
    adopted_tables: tuple[AdoptedTable, ...] = ()
    reader_problems: tuple[ReaderProblem, ...] = ()

    def only(self, hops: Collection[Hop]) -> Status:
        """The same with these hops, and with the routes all of whose hops they are. What belongs to a store stays."""
        names = {hop.name for hop in hops}
        return replace(
            self,
            hops=tuple(status for status in self.hops if status.hop.name in names),
            routes=tuple(status for status in self.routes if {hop.name for hop in status.route.hops} <= names),
        )


def read_status(routes: Routes) -> Status:
    """Asks every store, side by side, each in one session.

    Raises nothing for a store that does not answer: see `Status.errors`.
    """
    readings: ParallelRead[StoreReading[None]] = start_reading(routes, tuple(routes.stores.values()), lambda _: None)
    readings.wait()
    said = {store.name: reading for store, reading in readings.answers.items()}
    hops = {hop.name: hop_status(hop, said[hop.source.name], said[hop.destination.name]) for hop in routes.hops}
    return status_of(routes, hops, said)


def status_of(routes: Routes, hops: Mapping[str, HopStatus], said: Mapping[str, StoreReading[Any]]) -> Status:
    """All of it, from the status of each hop and what each store said, by their names."""
    return Status(
        measured_at=datetime.now(UTC),
        hops=tuple(hops[hop.name] for hop in routes.hops),
        routes=tuple(_route_status(route, [hops[hop.name] for hop in route.hops]) for route in routes.routes.values()),
        unrouted=tuple(_unrouted(routes, said)),
        orphaned_hops=tuple(hop for reading in said.values() for hop in reading.sending.orphaned_hops),
        errors={store: reading.error for store, reading in said.items() if reading.error is not None},
        provider_durability={
            store: found for store, reading in said.items() if (found := reading.sending.provider_durability) is not None
        },
        failing_endpoints=tuple(endpoint for reading in said.values() for endpoint in reading.sending.failing_endpoints),
        adopted_tables=tuple(AdoptedTable(store, *table) for store, reading in said.items() for table in reading.sending.adopted),
        reader_problems=tuple(problem for reading in said.values() for problem in reading.sending.reader_problems),
    )


def _stream_status(state: StreamState | None) -> StreamStatus | None:
    return state and StreamStatus(**{**state._asdict(), "stalled": tuple(StalledSender(**sender) for sender in state.stalled)})


def hop_status(hop: Hop, from_source: StoreReading[Any], from_destination: StoreReading[Any]) -> HopStatus:
    """How far a hop is, from what its two stores said in one reading."""
    source, destination, continuing = from_source.sending, from_destination.receiving, from_source.continuing
    sending, receiving = source.states.get(hop.name), destination.states.get(hop.name)
    unknown, retired = source.unknown_topics.get(hop.name), source.retired_hops.get(hop.name)
    continued = continuing.states.get(hop.name)
    if continued is None or not continued.is_other_store:
        continued = _lost_by_destination(hop, sending, receiving) or continued
    gap = continued or _lost_by_source(hop, sending)
    sent = sending and sending.planned_position + sending.waiting_count
    received = receiving.published_position if receiving else sending and sending.received_position
    lag = max(0, sent - receiving.published_position) if sent is not None and receiving else None
    return HopStatus(
        hop=hop,
        sent=sent,
        received=received,
        lag_messages=lag,
        lag_seconds=sending.oldest_seconds if lag and sending and sending.oldest_sent_at else None,
        driven=sending and sending.driven,
        last_batch=_last_batch(sending, receiving),
        open_batch=None if retired is not None else _open_batch(sending, receiving),
        processed_through=sending and sending.processed_position,
        settled_through=sending and sending.settled_position,
        delivery=None if gap is not None and gap.store != hop.destination.name else _delivery(sending, receiving),
        stream=_stream_status(destination.streams.get(hop.name)),
        account=source.accounts.get(hop.name),
        errors=(
            *(asked.error for asked in (source, destination) if asked.error is not None),
            *((retired.as_error(hop.source.name),) if retired is not None else ()),
            *((unknown.error,) if unknown is not None else ()),
            *find_broken(hop, source.accounts.get(hop.name, ())),
            *((gap.as_error(hop),) if gap is not None else ()),
        ),
        history_gap=gap,
        unknown_topics=unknown,
        retired=retired,
    )


def _lost_by_destination(hop: Hop, sending: SendingState | None, receiving: ReceivingState | None) -> HistoryGap | None:
    if sending is None or receiving is None:
        return None
    if receiving.published_batch >= sending.received_batch and receiving.published_position >= sending.received_position:
        return None
    return HistoryGap(
        hop.destination.name,
        f"{hop.source.name} has batch {sending.received_batch} confirmed, through position {sending.received_position}, "
        f"{hop.destination.name} ends at batch {receiving.published_batch}, position {receiving.published_position}: "
        f"{hop.destination.name} lost history",
        f"See what is missing with: relaybox reanchor {hop.name}",
    )


def _lost_by_source(hop: Hop, sending: SendingState | None) -> HistoryGap | None:
    """Its newest batch is not in its ledger."""
    if sending is None or sending.planned_batch == 0 or sending.planned_rows is not None:
        return None
    return HistoryGap(
        hop.source.name,
        f"{hop.source.name} stands at batch {sending.planned_batch}, and its ledger has no such batch: {hop.source.name} lost history",
        f"See what is wrong with: relaybox verify {hop.route}",
    )


def _last_batch(sending: SendingState | None, receiving: ReceivingState | None) -> LastBatch | None:
    if sending is None or sending.planned_rows is None:
        return None
    arrived = receiving if receiving is not None and receiving.published_batch == sending.planned_batch else None
    return LastBatch(
        batch=sending.planned_batch,
        row_count=sending.planned_rows,
        planned_at=sending.planned_at,
        published_at=arrived and arrived.published_at,
        moved_by=sending.moved_by,
        application=sending.application,
    )


def _open_batch(sending: SendingState | None, receiving: ReceivingState | None) -> OpenBatch | None:
    if sending is None or receiving is None or sending.planned_rows is None or sending.planned_batch <= receiving.published_batch:
        return None
    copied = set(receiving.copied_slices)
    missing = tuple(number for number in range(1, sending.planned_slices + 1) if number not in copied)
    return OpenBatch(sending.planned_batch, sending.planned_rows, sending.planned_slices, missing)


def _delivery(sending: SendingState | None, receiving: ReceivingState | None) -> Delivery | None:
    """R and UR of the confirmed batches; the destination may only ever hold fewer of them if it lost history."""
    if sending is None or receiving is None:
        return None
    return measure_delivery(
        sent=sending.received_position,
        unique_received=min(receiving.due_unique, sending.received_position),
        received=receiving.due_received,
    )


def _route_status(route: Route, hops: list[HopStatus]) -> RouteStatus:
    deliveries = [hop.delivery for hop in hops if hop.delivery is not None]
    return RouteStatus(
        route=route,
        sent=hops[0].sent,
        received=hops[-1].received,
        delivery=compose(deliveries) if len(deliveries) == len(hops) else None,
    )


def _unrouted(routes: Routes, said: Mapping[str, StoreReading[Any]]) -> Iterator[UnroutedTopic]:
    for store, reading in said.items():
        routed = sorted({topic for route in routes.routes.values() if route.path[0].name == store for topic in route.topics})
        for found in reading.sending.unrouted:
            nearest = None if found.topic in routed else next(iter(get_close_matches(found.topic, routed, n=1)), None)
            elsewhere = tuple(
                (route.name, route.path[0].name)
                for route in routes.routes.values()
                if found.topic in route.topics and route.path[0].name != store
            )
            retired = next(
                (
                    hop.route
                    for hop in routes.hops
                    if hop.name in reading.sending.retired_hops and hop.upstream is None and found.topic in hop.topics
                ),
                None,
            )
            yield UnroutedTopic(
                *(store, *found, nearest), routed_in_file=found.topic in routed, routed_from=elsewhere, retired_route=retired
            )
