"""The way of one message as moments in the order of time, what streams decided and confirmations coming back included: in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from relaybox.amounts import amount
from relaybox.monitoring.message_trace import (
    CauseTrace,
    DeliveryState,
    DeliveryTrace,
    DerivedTrace,
    HopStage,
    HopTrace,
    Trace,
)

_STAGES = {
    HopStage.UNROUTED: "unrouted: the route does not carry its topic",
    HopStage.RETIRED: "discarded on record",
    HopStage.ADOPTED: "delivered before its source lost the ledger of it",
    HopStage.WAITING: "not yet planned",
    HopStage.PLANNED: "planned, not copied",
    HopStage.COPIED: "copied, not published",
    HopStage.DROPPED: "arrived, and is no longer kept there",
    HopStage.DETACHED: "arrived, and is in files there. Run: relaybox attach STORE HOP",
}
"""Stages that last, and that no step with a time tells."""


@dataclass(frozen=True)
class TimelineEntry:
    """Something that happened, or (`at` None) a state that lasts.

    Attributes:
        what: in words, with its hop; has names in it that applications chose.
        moved_by: who did it; as the Spark application `application`, if it was one.
        recorded_by: who wrote it down.
        is_wrong: it contradicts the ledgers.
    """

    at: datetime | None
    store: str
    what: str
    moved_by: str | None = None
    application: str | None = None
    recorded_by: str | None = None
    is_wrong: bool = False


def moments(trace: Trace) -> list[TimelineEntry]:
    """What lasts comes last."""
    found = [*_sent(trace), *(moment for hop in trace.hops for moment in _on_hop(hop))]
    return sorted(found, key=lambda moment: moment.at or datetime.max.replace(tzinfo=UTC))


def _sent(trace: Trace) -> Iterator[TimelineEntry]:
    sent = trace.sent
    yield TimelineEntry(sent.sent_at, sent.store, f"sent: outbox seq {sent.seq:,}, transaction {sent.transaction:,}")
    if trace.derived_from is not None:
        yield TimelineEntry(sent.sent_at, sent.store, _derived_from(trace.derived_from))
    if sent.committed_at is not None:
        yield TimelineEntry(sent.committed_at, sent.store, "committed")


def _on_hop(hop: HopTrace) -> Iterator[TimelineEntry]:
    name, source, destination = hop.hop, hop.source, hop.destination
    if hop.batch is None or hop.log_position is None:
        yield TimelineEntry(None, source, f"{name}: {_STAGES[hop.stage]}")
        return
    planned = f"{name}: planned in batch {hop.batch:,}, slice {hop.slice}, for position {hop.log_position:,}"
    steps = (
        TimelineEntry(hop.planned_at, source, planned),
        TimelineEntry(hop.copied_at, destination, f"{name}: copied", moved_by=hop.moved_by, application=hop.application),
        TimelineEntry(hop.published_at, destination, f"{name}: arrived at position {hop.log_position:,}"),
        TimelineEntry(hop.received_at, source, f"{name}: received", recorded_by=hop.received_by),
        TimelineEntry(hop.processed_at, source, f"{name}: processed", recorded_by=hop.processed_by),
        TimelineEntry(hop.settled_at, source, f"{name}: settled", recorded_by=hop.settled_by),
    )
    yield from (step for step in steps if step.at is not None)
    if hop.delivered is not None:
        is_lost = hop.delivered.delivery_state is DeliveryState.LOST
        yield TimelineEntry(hop.delivered.decided_at, destination, f"{name}: {_decided(hop.delivered)}", is_wrong=is_lost)
        yield from (TimelineEntry(one.derived_at, destination, _derived(one)) for one in hop.delivered.derived)
    if hop.stage is HopStage.MISSING:
        there = "no message" if hop.found_instead is None else f"message {hop.found_instead}"
        compare = f"Compare the stores. Run: relaybox verify {name.split('/')[0]}"
        yield TimelineEntry(None, destination, f"{name}: {there} is at position {hop.log_position:,}. {compare}", is_wrong=True)
    elif hop.stage in _STAGES:
        yield TimelineEntry(None, destination, f"{name}: {_STAGES[hop.stage]}")


def _derived_from(cause: CauseTrace) -> str:
    """What a message was made of."""
    is_one = cause.first_stream_position == cause.last_stream_position
    positions = _indexes(cause.first_stream_position, cause.last_stream_position)
    message = f", message {cause.message_id}" if cause.message_id is not None else ""
    return (
        f"derived from stream position{'' if is_one else 's'} {positions} of stream {cause.stream}{message}, "
        f"by version {cause.version}, attempt {cause.attempt}"
    )


def _derived(derived: DerivedTrace) -> str:
    """What was made of a message."""
    messages = f": {', '.join(map(str, derived.message_ids))}" if derived.message_ids else ", none of them of this message alone"
    return (
        f"derived from by route {derived.route}, version {derived.version}, attempt {derived.attempt}, which sent "
        f"{amount(derived.derived_count, 'message')}{messages}"
    )


def _decided(delivered: DeliveryTrace) -> str:
    """What a store decided about a message."""
    original = "an earlier message" if delivered.duplicate_of is None else f"position {delivered.duplicate_of:,}"
    wanted = ", ".join(f"index {_indexes(one.first_index, one.last_index)} of {one.sender}" for one in delivered.waits_for)
    not_due = "".join(f"; not due until {_time(one.due_at)} for subscription {one.subscription}" for one in delivered.not_due)
    return {
        DeliveryState.DELIVERED: (
            f"delivered at stream position {delivered.stream_position or 0:,} of stream {delivered.stream}{not_due}"
        ),
        DeliveryState.DUPLICATE: f"dropped: a duplicate of {original}",
        DeliveryState.SET_ASIDE: f"set aside: {delivered.reason}",
        DeliveryState.HELD: f"held: waits for {wanted or 'an earlier message that waits itself'}",
        DeliveryState.STALLED: f"waits in the log: its sender has stalled, {delivered.reason}",
        DeliveryState.UNDECIDED: "not decided yet: the next transfer does",
        DeliveryState.DROPPED: "decided on, and no longer kept",
        DeliveryState.LOST: "neither delivered nor refused. Run: relaybox verify",
    }[delivered.delivery_state]


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def _indexes(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"
