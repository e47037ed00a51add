"""What the stores of a route say about one message: rows of trace_sent.sql and its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypedDict


class OutboxBegin(NamedTuple):
    first_kept_seq: int


@dataclass(frozen=True)
class SentRow:
    """A Sent, with its transaction as text."""

    seq: int
    xid: str
    topic: str
    sender: str
    epoch: int
    index: int | None
    sent_at: datetime
    committed_at: datetime | None


class HopReading(NamedTuple):
    """What the source of a hop says about a message that it reads (trace_reading.sql); without a plan only its state."""

    state: str
    batch: int
    slice: int
    log_position: int
    planned_at: datetime | None
    received_at: datetime | None
    received_by: str | None
    processed_at: datetime | None
    processed_by: str | None
    settled_at: datetime | None
    settled_by: str | None
    moved_by: str | None
    application: str | None


class HopArrival(NamedTuple):
    """What the destination of a hop says about a position (trace_arrival.sql)."""

    copied_at: datetime | None
    published_at: datetime | None
    message_id: str | None
    is_kept: bool
    is_detached: bool


class AwaitedFields(TypedDict):
    """MissingIndexes as JSON."""

    sender: str
    epoch: int
    first_index: int
    last_index: int


class DelayFields(TypedDict):
    """DelayTrace as JSON."""

    subscription: str
    due_at: str


class DeliveryRow(NamedTuple):
    """A Delivered as trace_delivery.sql gives it."""

    stream: str
    delivery_order: str
    delivery_state: str
    stream_position: int | None
    duplicate_of: int | None
    reason: str | None
    decided_at: datetime | None
    waits_for: list[AwaitedFields] | None
    not_due: list[DelayFields] | None


class CauseRow(NamedTuple):
    """What a message was derived from, as trace_cause.sql gives it."""

    stream: str
    first_stream_position: int
    last_stream_position: int
    message_id: str | None
    version: int
    attempt: int


class DerivedRow(NamedTuple):
    """What was derived from a message, as trace_derived.sql gives it."""

    route: str
    version: int
    attempt: int
    derived_at: datetime
    derived_count: int
    message_ids: list[str]
