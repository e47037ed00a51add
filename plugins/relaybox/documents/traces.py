"""The answer of `relaybox where`, and of the page's search."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from relaybox.documents.document import Document, Time
from relaybox.monitoring.message_trace import DeliveryState, HopStage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from relaybox.monitoring.message_trace import Trace


class SentMessage(Document):
    """A message in its outbox."""

    store: str
    seq: int
    transaction: int
    topic: str
    sender: str
    epoch: int
    index: int | None
    sent_at: Time
    committed_at: Time | None
    """Null where the server does not track commit times."""


class AwaitedIndexes(Document):
    """Indexes of a sender, both ends included, that must be delivered first."""

    sender: str
    epoch: int
    first_index: int
    last_index: int


class CauseDocument(Document):
    """Messages of a stream of the origin, both ends included, of which an attempt of the derivation made this one."""

    stream: str
    first_stream_position: int
    last_stream_position: int
    message_id: UUID | None
    """Of its single cause; null: it has none, or that is no longer kept."""
    version: int
    attempt: int


class DerivedMessages(Document):
    """What an attempt of a derivation made of this message and of others."""

    route: str
    version: int
    attempt: int
    derived_at: Time
    derived_count: int
    """Messages that the attempt sent, of all its causes."""
    message_ids: list[UUID]
    """Of those that this message alone caused, as far as the outbox has them; at most 20."""


class DelayDocument(Document):
    """A subscription that waits until a delayed message is due, as its newest fetch found."""

    subscription: str
    due_at: Time


class StreamDelivery(Document):
    """A message in the stream of the store where a hop arrives."""

    stream: str
    delivery_order: str
    delivery_state: DeliveryState
    stream_position: int | None
    """Where consumers read it, once it is delivered."""
    duplicate_of: int | None
    """Position of the message that it repeats; null when that one is no longer kept."""
    reason: str | None
    """Why it was set aside, or why its sender stalled."""
    decided_at: Time | None
    waits_for: list[AwaitedIndexes]
    derived: list[DerivedMessages]
    """What derivations of this store made of it."""
    not_due: list[DelayDocument]
    """The subscriptions that wait until it is due."""


class HopTraceDocument(Document):
    """A message on one hop; what has not happened yet is null."""

    hop: str
    source: str
    destination: str
    stage: HopStage
    batch: int | None
    slice: int | None
    log_position: int | None
    planned_at: Time | None
    moved_by: str | None
    """Who made the newest attempt at its batch."""
    application: str | None
    """The Spark application of that attempt; null: threads."""
    copied_at: Time | None
    published_at: Time | None
    received_at: Time | None
    """When the source recorded it; the same of `processed_at` and `settled_at`."""
    received_by: str | None
    processed_at: Time | None
    processed_by: str | None
    settled_at: Time | None
    settled_by: str | None
    found_instead: UUID | None
    """The message that is at its position; null: no other one."""
    delivered: StreamDelivery | None
    """Null while it is not published at the destination."""


class TraceDocument(Document):
    """A message on one route."""

    route: str
    sent: SentMessage
    derived_from: CauseDocument | None
    """Null: an application sent it."""
    hops: list[HopTraceDocument]


class TracesDocument(Document):
    """The answer of `relaybox where`. A producer that gave an id to two messages gets two traces."""

    message_id: UUID
    traces: list[TraceDocument]
    errors: dict[str, str]
    """By store: where other routes begin, which did not answer. Whether they have a message of this id too is unknown."""

    @classmethod
    def of(cls, traces: Sequence[Trace], unanswered: Mapping[str, Exception]) -> TracesDocument:
        return cls(
            message_id=traces[0].message_id,
            traces=[TraceDocument.model_validate(trace) for trace in traces],
            errors={store: str(error) for store, error in unanswered.items()},
        )
