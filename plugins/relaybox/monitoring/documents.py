"""The reports as JSON documents. Their keys are an interface: tests hold them, other programs read them."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from relaybox.proofs.reliability import is_no_reading
from relaybox.proofs.stream_proofs import VIOLATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.monitoring.status import HopStatus, RouteStatus, Status, StreamStatus, UnroutedTopic
    from relaybox.monitoring.tracing import HopTrace, Trace
    from relaybox.proofs.defects import Defect
    from relaybox.proofs.proof import LegProof, RouteProof
    from relaybox.proofs.reliability import Delivery
    from relaybox.proofs.stream_proofs import StreamProof
    from relaybox.streams.holdback import HeldSender, StoreHoldback
    from relaybox.streams.senders import DeclaredSender

Document = dict[str, Any]


def write(document: Document) -> None:
    """One document to stdout; times in ISO 8601, ids as text."""
    print(json.dumps(document, indent=2, default=str))


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _delivery(delivery: Delivery | None, received: int | None) -> Document:
    """R and UR as numbers; the mode comes from the exact fractions, so that 0.9999999999 never reads as exactly once.

    All three are null where a store did not answer, and where nothing has arrived yet.
    """
    if delivery is None or is_no_reading(delivery, received):
        return {"reliability": None, "uniqueness": None, "mode": None}
    return {"reliability": float(delivery.reliability), "uniqueness": float(delivery.uniqueness), "mode": str(delivery.mode)}


def status_document(status: Status) -> Document:
    return {
        "measured_at": _time(status.measured_at),
        "hops": [_hop_status(hop) for hop in status.hops],
        "routes": [_route_status(route) for route in status.routes],
        "unrouted": [_unrouted(topic) for topic in status.unrouted],
        "left_behind": [asdict(hop) for hop in status.left_behind],
        "errors": {store: str(error) for store, error in status.errors.items()},
    }


def _hop_status(status: HopStatus) -> Document:
    last, resumable = status.last_batch, status.open_batch
    return {
        "hop": status.hop.name,
        "route": status.hop.route,
        "source": status.hop.source.name,
        "destination": status.hop.destination.name,
        "reads": status.hop.upstream or "outbox",
        "topics": list(status.hop.topics),
        "sent": status.sent,
        "received": status.received,
        "lag_messages": status.lag_messages,
        "lag_seconds": status.lag_seconds,
        "driven": status.driven,
        "last_batch": last
        and {
            "batch": last.batch,
            "row_count": last.row_count,
            "planned_at": _time(last.planned_at),
            "published_at": _time(last.published_at),
            "moved_by": last.moved_by,
            "application": last.application,
        },
        "open_batch": resumable
        and {
            "batch": resumable.batch,
            "row_count": resumable.row_count,
            "slice_count": resumable.slice_count,
            "missing_slices": list(resumable.missing_slices),
        },
        "processed_through": status.processed_through,
        "settled_through": status.settled_through,
        **_delivery(status.delivery, status.received),
        "stream": None if status.stream is None else _stream(status.stream),
        "account": None if status.account is None else [asdict(topic) for topic in status.account],
        "errors": [str(error) for error in status.errors],
    }


def _stream(stream: StreamStatus) -> Document:
    return {**asdict(stream), "uniqueness": float(stream.uniqueness) if stream.decided_rows else None}


def _route_status(status: RouteStatus) -> Document:
    return {
        "route": status.route.name,
        "sent": status.sent,
        "received": status.received,
        **_delivery(status.delivery, status.received),
    }


def _unrouted(topic: UnroutedTopic) -> Document:
    return {
        "store": topic.store,
        "topic": topic.topic,
        "message_count": topic.message_count,
        "first_sent_at": _time(topic.first_sent_at),
        "nearest": topic.nearest,
        "next_step": topic.next_step,
    }


def traces_document(traces: Sequence[Trace]) -> Document:
    return {"message_id": str(traces[0].message_id), "traces": [_trace(trace) for trace in traces]}


def _trace(trace: Trace) -> Document:
    sent = trace.sent
    return {
        "route": trace.route,
        "sent": {
            "store": sent.store,
            "seq": sent.seq,
            "transaction": sent.transaction,
            "topic": sent.topic,
            "sender": sent.sender,
            "epoch": sent.epoch,
            "index": sent.index,
            "sent_at": _time(sent.sent_at),
            "committed_at": _time(sent.committed_at),
        },
        "hops": [_hop_trace(hop) for hop in trace.hops],
    }


def _hop_trace(hop: HopTrace) -> Document:
    return {
        "hop": hop.hop,
        "source": hop.source,
        "destination": hop.destination,
        "place": str(hop.place),
        "batch": hop.batch,
        "slice": hop.slice,
        "position": hop.position,
        "planned_at": _time(hop.planned_at),
        "moved_by": hop.moved_by,
        "application": hop.application,
        "copied_at": _time(hop.copied_at),
        "published_at": _time(hop.published_at),
        "received_at": _time(hop.received_at),
        "received_by": hop.received_by,
        "processed_at": _time(hop.processed_at),
        "processed_by": hop.processed_by,
        "settled_at": _time(hop.settled_at),
        "settled_by": hop.settled_by,
        "found_instead": hop.found_instead and str(hop.found_instead),
        "delivered": hop.delivered and {**asdict(hop.delivered), "decided_at": _time(hop.delivered.decided_at)},
    }


def proof_document(proof: RouteProof) -> Document:
    return {
        "route": proof.route,
        "verdict": proof.verdict,
        "verified_at": _time(proof.verified_at),
        "duration_seconds": proof.duration_seconds,
        "hops": [_leg(leg) for leg in proof.hops],
        "end_to_end": _leg(proof.end_to_end),
        "senders": {"count": proof.sender_count, "out_of_order": list(proof.disordered_senders)},
        "repeated_ids": [str(message_id) for message_id in proof.repeated_ids],
        "streams": [_stream_proof(stream) for stream in proof.streams],
    }


def _stream_proof(stream: StreamProof) -> Document:
    """Every kind of violation is there, 0 where there is none."""
    found = stream.violations
    return {
        "store": stream.store,
        "stream": stream.stream,
        "order": stream.order,
        "first_kept_place": stream.first_kept_place,
        "last_place": stream.last_place,
        "waiting_count": stream.waiting_count,
        "violations": {kind: found[kind].count if kind in found else 0 for kind in VIOLATIONS},
        "examples": {kind: list(violation.examples) for kind, violation in found.items()},
    }


def _leg(leg: LegProof) -> Document:
    return {
        "name": leg.name,
        "source": leg.source,
        "destination": leg.destination,
        "sent": leg.sent,
        "received": leg.received,
        "in_flight": leg.in_flight,
        "batch_count": leg.batch_count,
        "slice_count": leg.slice_count,
        **_delivery(leg.delivery, leg.received),
        "defects": [_defect(defect) for defect in leg.defects],
        "contradictions": list(leg.contradictions),
        "adopted_count": leg.adopted_count,
        "ghosts": [str(message_id) for message_id in leg.ghosts],
        "no_longer_kept": leg.no_longer_kept,
        "account": [asdict(topic) for topic in leg.account],
    }


def _defect(defect: Defect) -> Document:
    return {
        "kind": str(defect.kind),
        "message_id": str(defect.message_id),
        "sender": defect.sender,
        "position": defect.position,
        "found_at": defect.found_at,
    }


def senders_document(senders: Sequence[DeclaredSender]) -> Document:
    """`last_index` is null but for gapless senders at their origin; `epoch` is 0 for a sender that is bound and not declared."""
    return {
        "senders": [
            {**asdict(sender), "declared_at": _time(sender.declared_at), "roles": list(sender.roles)} for sender in senders
        ]
    }


def holdback_document(stores: Sequence[StoreHoldback]) -> Document:
    return {
        "stores": [
            {
                "store": store.store,
                "route": store.route,
                "stream": store.stream,
                "order": store.order,
                "senders": [_held_sender(sender) for sender in store.senders],
                "error": None if store.error is None else str(store.error),
            }
            for store in stores
        ]
    }


def _held_sender(sender: HeldSender) -> Document:
    return {**asdict(sender), "held_since": _time(sender.held_since)}
