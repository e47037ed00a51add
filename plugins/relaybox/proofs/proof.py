"""What a proof of delivery says, leg by leg, and its way from the process that made it to the one that asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import TypeAdapter

from relaybox.proofs.conservation import TopicAccount
from relaybox.proofs.defects import Defect
from relaybox.proofs.reliability import Delivery, show_ratio
from relaybox.proofs.stream_proofs import StreamProof

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class LegProof:
    """What two stores say of a hop, or the first and the last of a whole route.

    Attributes:
        name: the hop, or the route for its whole way.
        sent: messages that are due: in batches that are published at the destination.
        received: rows that are there for them, copies and strangers included.
        in_flight: committed messages that are not published at the destination yet.
        delivery: R and UR by content.
        contradictions: what is wrong in or between the ledgers.
        adopted_count: messages that were delivered under a ledger which the source lost; only those that were changed are in `sent`.
        ghosts: ids of those of them that the source lost as well.
        no_longer_kept: messages that retention has dropped in one of the two stores: nothing is said of them.
        account: of the first hop, and of the whole way: what became of each committed message that the outbox keeps (G12).
    """

    name: str
    source: str
    destination: str
    sent: int
    received: int
    in_flight: int
    batch_count: int
    slice_count: int
    delivery: Delivery
    defects: tuple[Defect, ...]
    contradictions: tuple[str, ...]
    adopted_count: int = 0
    ghosts: tuple[UUID, ...] = ()
    no_longer_kept: int = 0
    account: tuple[TopicAccount, ...] = ()

    @property
    def defect_count(self) -> int:
        return len(self.defects) + len(self.contradictions)


@dataclass(frozen=True)
class RouteProof:
    """The proof of a route.

    Attributes:
        end_to_end: the origin compared with the last store directly.
        sender_count: senders at the last store.
        disordered_senders: those with a message out of its place there; of all others every message is where it was put.
        streams: what each store delivered, checked against the order of the route.
        repeated_ids: ids that producers gave to several messages: each of these was delivered, under one id.
    """

    route: str
    verified_at: datetime
    duration_seconds: float
    hops: tuple[LegProof, ...]
    end_to_end: LegProof
    sender_count: int
    disordered_senders: tuple[str, ...]
    repeated_ids: tuple[UUID, ...]
    streams: tuple[StreamProof, ...]

    @property
    def defect_count(self) -> int:
        """Of every leg (a route of one hop is one), and every place that breaks the order of a stream."""
        legs = self.hops if len(self.hops) == 1 else (*self.hops, self.end_to_end)
        return sum(leg.defect_count for leg in legs) + sum(stream.violation_count for stream in self.streams)

    @property
    def verdict(self) -> Literal["delivered", "in flight", "defects"]:
        if self.defect_count:
            return "defects"
        is_waiting = any(leg.in_flight for leg in (*self.hops, self.end_to_end)) or any(
            stream.waiting_count for stream in self.streams
        )
        return "in flight" if is_waiting else "delivered"


def proof_line(proof: RouteProof) -> dict[str, Any]:
    """A proof as one line of a report; R and UR as text, which is 1 only where nothing was lost or doubled."""
    whole = proof.end_to_end
    return {
        "route": proof.route,
        "verdict": proof.verdict,
        "sent": whole.sent,
        "received": whole.received,
        "in_flight": whole.in_flight,
        "reliability": show_ratio(whole.delivery.reliability),
        "uniqueness": show_ratio(whole.delivery.uniqueness),
        "defects": proof.defect_count,
        "duration_seconds": proof.duration_seconds,
    }


def write_proof(proof: RouteProof, path: Path) -> None:
    """Writes a proof as JSON, for read_proof of the same version; R and UR stay fractions."""
    path.write_bytes(TypeAdapter(RouteProof).dump_json(proof))


def read_proof(path: Path) -> RouteProof:
    """The proof that write_proof wrote, equal in every part."""
    return TypeAdapter(RouteProof).validate_json(path.read_bytes())
