"""The answer of `relaybox status`, which is part of the page's as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from relaybox.documents.document import Document, Ratio, Text, Time
from relaybox.documents.readers import ReaderProblemDocument
from relaybox.verification.reliability import DeliveryMode, is_no_reading

if TYPE_CHECKING:
    from relaybox.monitoring.status import HopStatus, RouteStatus, Status, StreamStatus
    from relaybox.verification.reliability import Delivery


class LastBatch(Document):
    """The newest batch that was planned."""

    batch: int
    row_count: int
    planned_at: Time
    published_at: Time | None
    moved_by: str | None
    """Who made the newest attempt at it."""
    application: str | None
    """The Spark application of that attempt; null: threads."""


class OpenBatch(Document):
    """A batch that is planned and not published."""

    batch: int
    row_count: int
    slice_count: int
    missing_slices: list[int]


class StalledSender(Document):
    """A sender whose messages wait in a log."""

    sender: str
    epoch: int
    reason: str


class StreamDocument(Document):
    """What a store decided about the log of one hop."""

    stream: str
    delivery_order: str
    last_stream_position: int
    decided_rows: int
    undecided_rows: int
    """Published, and not decided on yet."""
    duplicate_count: int
    set_aside_count: int
    held_count: int
    stalled: list[StalledSender]
    uniqueness: Ratio | None
    """Rows that are no duplicates / all rows; null before the first decision."""

    @classmethod
    def of(cls, stream: StreamStatus) -> StreamDocument:
        found = cls.model_validate(stream)
        return found if stream.decided_rows else found.model_copy(update={"uniqueness": None})


class AccountedTopic(Document):
    """What became of the committed messages of a topic (G12)."""

    topic: str
    committed_count: int
    delivered_count: int
    planned_count: int
    waiting_count: int
    unrouted_count: int
    """The topic was taken from the route before they were planned; they are kept. A hop that has the topic now moves them too."""
    retired_count: int
    """Given up on record."""
    missing_count: int
    """In none of these: a defect."""
    doubled_count: int
    """In two of these: a defect."""


class Rates(TypedDict):
    """R, UR and the delivery mode."""

    reliability: float | None
    uniqueness: float | None
    mode: DeliveryMode | None


def rates_of(delivery: Delivery | None, received: int | None) -> Rates:
    """R and UR as numbers; the mode comes from the exact fractions, so that 0.9999999999 never reads as exactly once.

    All three are None where a store did not answer, and where nothing has arrived yet.
    """
    if delivery is None or is_no_reading(delivery, received):
        return {"reliability": None, "uniqueness": None, "mode": None}
    return {"reliability": float(delivery.reliability), "uniqueness": float(delivery.uniqueness), "mode": delivery.mode}


class HopDocument(Document):
    """One hop. A member is null when the store that knows it could not be asked."""

    hop: str
    route: str
    source: str
    destination: str
    reads: str
    """`outbox`, or the hop whose log it reads."""
    topics: list[str]
    sent: int | None
    received: int | None
    lag_messages: int | None
    """Sent and not received."""
    lag_seconds: float | None
    """The age of the oldest of them; null when there is none."""
    driven: bool | None
    """Whether a transfer of this hop is running."""
    last_batch: LastBatch | None
    open_batch: OpenBatch | None
    processed_through: int | None
    """Position; null: the hop has no subscriptions of policy `processed`."""
    settled_through: int | None
    """Position through which the route's policy holds."""
    reliability: float | None
    """R of what is due; null before anything has arrived."""
    uniqueness: float | None
    """UR of the same."""
    mode: DeliveryMode | None
    stream: StreamDocument | None
    account: list[AccountedTopic] | None
    """Of a hop that reads an outbox."""
    errors: list[str]

    @classmethod
    def of(cls, status: HopStatus) -> HopDocument:
        hop, last, resumable = status.hop, status.last_batch, status.open_batch
        return cls(
            hop=hop.name,
            route=hop.route,
            source=hop.source.name,
            destination=hop.destination.name,
            reads=hop.upstream or "outbox",
            topics=list(hop.topics),
            sent=status.sent,
            received=status.received,
            lag_messages=status.lag_messages,
            lag_seconds=status.lag_seconds,
            driven=status.driven,
            last_batch=None if last is None else LastBatch.model_validate(last),
            open_batch=None if resumable is None else OpenBatch.model_validate(resumable),
            processed_through=status.processed_through,
            settled_through=status.settled_through,
            **rates_of(status.delivery, status.received),
            stream=None if status.stream is None else StreamDocument.of(status.stream),
            account=None if status.account is None else [AccountedTopic.model_validate(topic) for topic in status.account],
            errors=[str(error) for error in status.errors],
        )


class RouteDocument(Document):
    """A whole route: the products of its hops' R and UR."""

    route: str
    sent: int | None
    received: int | None
    reliability: float | None
    uniqueness: float | None
    mode: DeliveryMode | None

    @classmethod
    def of(cls, status: RouteStatus) -> RouteDocument:
        rates = rates_of(status.delivery, status.received)
        return cls(route=status.route.name, sent=status.sent, received=status.received, **rates)


class UnroutedTopic(Document):
    """Committed messages of a topic that no hop of their store reads."""

    store: str
    topic: str
    message_count: int
    first_sent_at: Time
    nearest: str | None
    """A topic of relaybox.yaml with nearly the same name."""
    next_step: str


class OrphanedHopDocument(Document):
    """A hop that a store knows and relaybox.yaml no longer contains."""

    hop: str
    store: str
    destination: str
    retired_at: Time | None
    """Null as long as the store keeps what the hop has not settled."""
    retired_by: str | None
    retired_reason: str | None
    in_use: str | None
    """Why the store refuses to retire it: the newest init or a driver has a relaybox.yaml with the hop. Null: it does not refuse."""
    in_use_next_step: str | None
    unsettled_count: int
    """Messages in its batches that are not settled."""
    waiting_count: int
    """Messages in none of its batches."""
    oldest_sent_at: Time | None
    """Of those that have not arrived."""


class ProviderDurabilityDocument(Document):
    """A store whose provider makes commits durable by other means than fsync."""

    reason: str
    said_by: str
    """The login of the init that recorded it."""
    said_at: Time


class FailingEndpointDocument(Document):
    """An endpoint of a webhook or of Kafka that takes no message now. Its messages wait."""

    store: str
    subscription: str
    stream: str
    endpoint: str
    """The URL without its query; or brokers and topic."""
    failing_since: Time
    failure_count: int
    """Failed attempts since then."""
    retry_at: Time
    """When the next attempt is due."""
    reason: str
    """What it answered to the newest."""
    waiting_count: int
    """Stream positions that are not acknowledged, of all topics of the stream."""
    next_step: str


class AdoptedTableDocument(Document):
    """A table of an application whose rows are sent."""

    store: str
    table_name: str
    state: str
    """sending; or backlog: rows of before the adoption are not all moved, and later ones wait."""
    waiting_count: int
    """Messages that wait for the end of the backlog."""
    unmapped_count: int
    """Rows that can't be messages and are kept apart."""
    adopted_at: Time
    problems: list[str]
    """As `relaybox doctor` names them, with what to do."""


class StatusDocument(Document):
    """The answer of `relaybox status`."""

    measured_at: Time
    hops: list[HopDocument]
    routes: list[RouteDocument]
    unrouted: list[UnroutedTopic]
    orphaned_hops: list[OrphanedHopDocument]
    provider_durability: dict[str, ProviderDurabilityDocument]
    """By store with `durability: provider`."""
    failing_endpoints: list[FailingEndpointDocument]
    adopted_tables: list[AdoptedTableDocument]
    reader_problems: list[ReaderProblemDocument]
    errors: dict[str, Text]
    """By store that did not answer, or not fully."""

    @classmethod
    def of(cls, status: Status) -> StatusDocument:
        return cls(
            measured_at=status.measured_at,
            hops=[HopDocument.of(hop) for hop in status.hops],
            routes=[RouteDocument.of(route) for route in status.routes],
            unrouted=[UnroutedTopic.model_validate(topic) for topic in status.unrouted],
            orphaned_hops=[OrphanedHopDocument.model_validate(hop) for hop in status.orphaned_hops],
            provider_durability={
                store: ProviderDurabilityDocument.model_validate(found) for store, found in status.provider_durability.items()
            },
            failing_endpoints=[FailingEndpointDocument.model_validate(endpoint) for endpoint in status.failing_endpoints],
            adopted_tables=[AdoptedTableDocument.model_validate(table) for table in status.adopted_tables],
            reader_problems=[ReaderProblemDocument.model_validate(problem) for problem in status.reader_problems],
            errors={store: str(error) for store, error in status.errors.items()},
        )
