"""What a verification of delivery says, leg by leg, and its way from the process that made it to the one that asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import TypeAdapter

from relaybox.verification.conservation import TopicAccount
from relaybox.verification.defects import Defect
from relaybox.verification.reliability import Delivery, show_ratio
from relaybox.verification.stream_verification import StreamVerification

if TYPE_CHECKING:
    from pathlib import Path

Outcome = Literal["delivered", "set aside", "in flight", "defects"]


@dataclass(frozen=True)
class LegVerification:
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
class RepeatedIdCounts:
    """Messages at the last store whose ids producers gave to several messages, and what its stream made of them.

    Attributes:
        dropped: duplicates of an earlier message of their sender, by index or by id within `message_id_window`.
        set_aside: dead letters of the stream.
        waiting: held, or not decided on.
    """

    messages: int
    delivered: int
    dropped: int
    set_aside: int

    @property
    def waiting(self) -> int:
        return max(self.messages - self.delivered - self.dropped - self.set_aside, 0)


@dataclass(frozen=True)
class RouteVerification:
    """The verification of a route.

    Attributes:
        end_to_end: the origin compared with the last store directly.
        sender_count: senders at the last store.
        disordered_senders: those with a message out of its stream position there; of all others every message is where it was put.
        streams: what each store delivered, checked against the order of the route.
        repeated_ids: ids that producers gave to several messages; each of these is in every log, under one id.
        repeated_id_counts: what the stream of the last store made of those messages; None: no id is repeated.
    """

    route: str
    verified_at: datetime
    duration_seconds: float
    hops: tuple[LegVerification, ...]
    end_to_end: LegVerification
    sender_count: int
    disordered_senders: tuple[str, ...]
    repeated_ids: tuple[UUID, ...]
    streams: tuple[StreamVerification, ...]
    repeated_id_counts: RepeatedIdCounts | None = None

    @property
    def defect_count(self) -> int:
        """Of every leg (a route of one hop is one), and every stream position that breaks the order of a stream."""
        legs = self.hops if len(self.hops) == 1 else (*self.hops, self.end_to_end)
        return sum(leg.defect_count for leg in legs) + sum(stream.violation_count for stream in self.streams)

    @property
    def set_aside_count(self) -> int:
        """Dead letters of the streams, over all stores, on which no one has decided: a message may count once per store."""
        return sum(stream.set_aside_count for stream in self.streams)

    @property
    def outcome(self) -> Outcome:
        """A message that a stream set aside is in its log, but no consumer gets it: that is not delivered, and no defect of a store."""
        if self.defect_count:
            return "defects"
        is_waiting = any(leg.in_flight for leg in (*self.hops, self.end_to_end)) or any(
            stream.waiting_count for stream in self.streams
        )
        if is_waiting:
            return "in flight"
        return "set aside" if self.set_aside_count else "delivered"


def verification_line(verification: RouteVerification) -> dict[str, Any]:
    """A verification as one line of a report; R and UR as text, which is 1 only where nothing was lost or doubled."""
    whole = verification.end_to_end
    return {
        "route": verification.route,
        "outcome": verification.outcome,
        "sent": whole.sent,
        "received": whole.received,
        "in_flight": whole.in_flight,
        "set_aside": verification.set_aside_count,
        "reliability": show_ratio(whole.delivery.reliability),
        "uniqueness": show_ratio(whole.delivery.uniqueness),
        "defects": verification.defect_count,
        "duration_seconds": verification.duration_seconds,
    }


def write_verification(verification: RouteVerification, path: Path) -> None:
    """Writes a verification as JSON, for read_verification of the same version; R and UR stay fractions."""
    path.write_bytes(TypeAdapter(RouteVerification).dump_json(verification))


def read_verification(path: Path) -> RouteVerification:
    """The proof that write_verification wrote, equal in every part."""
    return TypeAdapter(RouteVerification).validate_json(path.read_bytes())
