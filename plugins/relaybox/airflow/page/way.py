"""The way of one message as moments in the order of time, confirmations coming back included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from relaybox.tracing import HopTrace, Place, Trace


@dataclass(frozen=True)
class Moment:
    """Something that happened, or (`at` None) a state that lasts.

    `recorded_by` is who did it, or wrote it down, as the Spark application `application` if it was one.
    """

    at: datetime | None
    store: str
    what: str
    recorded_by: str | None = None
    is_wrong: bool = False
    application: str | None = None


def moments(trace: Trace) -> list[Moment]:
    """What lasts comes last."""
    found = [*_sent(trace), *(moment for hop in trace.hops for moment in _on_hop(hop))]
    return sorted(found, key=lambda moment: moment.at or datetime.max.replace(tzinfo=UTC))


def _sent(trace: Trace) -> Iterator[Moment]:
    sent = trace.sent
    yield Moment(sent.sent_at, sent.store, f"sent: outbox seq {sent.seq:,}, transaction {sent.transaction:,}")
    if sent.committed_at is not None:
        yield Moment(sent.committed_at, sent.store, "committed")


def _on_hop(hop: HopTrace) -> Iterator[Moment]:
    if hop.batch is None or hop.position is None:
        yield Moment(None, hop.source, f"{hop.hop}: {hop.place}")
        return
    steps = [
        Moment(hop.planned_at, hop.source, f"planned in batch {hop.batch:,}, slice {hop.slice}, for position {hop.position:,}"),
        Moment(hop.copied_at, hop.destination, "copied", hop.moved_by, application=hop.application),
        Moment(hop.published_at, hop.destination, f"arrived at position {hop.position:,}"),
        Moment(hop.received_at, hop.source, "received", hop.received_by),
        Moment(hop.processed_at, hop.source, "processed", hop.processed_by),
        Moment(hop.settled_at, hop.source, "settled", hop.settled_by),
    ]
    for step in steps:
        if step.at is not None:
            yield replace(step, what=f"{hop.hop}: {step.what}")
    if hop.place is Place.GONE:
        there = "no message" if hop.found_instead is None else f"message {hop.found_instead}"
        yield Moment(
            None, hop.destination, f"{hop.hop}: {there} is at position {hop.position:,}. Run: relaybox verify", is_wrong=True
        )
    elif hop.place in (Place.PLANNED, Place.COPIED):
        yield Moment(None, hop.destination, f"{hop.hop}: {hop.place}")
