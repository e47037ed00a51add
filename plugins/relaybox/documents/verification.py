"""The answer of `relaybox verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from uuid import UUID

from relaybox.documents.document import Document, Time
from relaybox.documents.readers import ReaderProblemDocument
from relaybox.documents.status import AccountedTopic, rates_of
from relaybox.verification.defects import DefectKind
from relaybox.verification.reliability import DeliveryMode
from relaybox.verification.stream_verification import VIOLATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.stores.readers.reader_problems import ReaderProblem
    from relaybox.verification.results import LegVerification, RouteVerification
    from relaybox.verification.stream_verification import StreamVerification


class DefectDocument(Document):
    """One message that is not as it was sent."""

    kind: DefectKind
    message_id: UUID
    sender: str
    log_position: int | None
    """Where it should be; null: nowhere."""
    found_at: int | None
    """Where it is; null: nowhere."""


class LegDocument(Document):
    """What two stores say of a hop, or the first and the last store of a whole route."""

    name: str
    source: str
    destination: str
    sent: int
    """Messages that are due: in batches that are published at the destination."""
    received: int
    """Rows that are there for them, copies and strangers included."""
    in_flight: int
    """Committed messages that are not published at the destination yet."""
    batch_count: int
    slice_count: int
    reliability: float | None
    uniqueness: float | None
    mode: DeliveryMode | None
    defects: list[DefectDocument]
    contradictions: list[str]
    """What is wrong in or between the ledgers."""
    adopted_count: int
    """Messages that were delivered under a ledger which the source lost."""
    ghosts: list[UUID]
    """Ids of those of them that the source lost as well."""
    no_longer_kept: int
    """Messages that retention has dropped in one of the two stores: nothing is said of them."""
    account: list[AccountedTopic]
    """Of the first hop and of the whole way."""

    @classmethod
    def of(cls, leg: LegVerification) -> LegDocument:
        return cls(
            name=leg.name,
            source=leg.source,
            destination=leg.destination,
            sent=leg.sent,
            received=leg.received,
            in_flight=leg.in_flight,
            batch_count=leg.batch_count,
            slice_count=leg.slice_count,
            **rates_of(leg.delivery, leg.received),
            defects=[DefectDocument.model_validate(defect) for defect in leg.defects],
            contradictions=list(leg.contradictions),
            adopted_count=leg.adopted_count,
            ghosts=list(leg.ghosts),
            no_longer_kept=leg.no_longer_kept,
            account=[AccountedTopic.model_validate(topic) for topic in leg.account],
        )


class SenderOrder(Document):
    """The senders at the last store."""

    count: int
    out_of_order: list[str]


class StreamVerificationDocument(Document):
    """What a store's stream says of its order."""

    store: str
    stream: str
    order: str
    first_kept_stream_position: int
    """Where its history begins; of what retention has dropped nothing is said."""
    last_stream_position: int
    waiting_count: int
    """Received messages that the stream has not decided on."""
    set_aside: dict[str, int]
    """Dead letters of the stream that are open, by reason: their messages are in the log, and no consumer gets them."""
    violations: dict[str, int]
    """Every kind of violation is there, 0 where there is none."""
    examples: dict[str, list[str]]

    @classmethod
    def of(cls, stream: StreamVerification) -> StreamVerificationDocument:
        found = stream.violations
        return cls(
            store=stream.store,
            stream=stream.stream,
            order=stream.order,
            first_kept_stream_position=stream.first_kept_stream_position,
            last_stream_position=stream.last_stream_position,
            waiting_count=stream.waiting_count,
            set_aside=dict(stream.set_aside),
            violations={kind: found[kind].count if kind in found else 0 for kind in VIOLATIONS},
            examples={kind: list(violation.examples) for kind, violation in found.items()},
        )


class RepeatedIdsDocument(Document):
    """Messages at the last store whose ids producers gave to several messages."""

    messages: int
    delivered: int
    dropped: int
    """Duplicates of an earlier message of their sender."""
    set_aside: int
    """Dead letters of the stream."""
    waiting: int
    """Held, or not decided on."""


class VerificationDocument(Document):
    """The answer of `relaybox verify`: the verification of a route."""

    route: str
    outcome: Literal["delivered", "set aside", "in flight", "defects"]
    verified_at: Time
    duration_seconds: float
    hops: list[LegDocument]
    end_to_end: LegDocument
    """The origin compared with the last store directly."""
    senders: SenderOrder
    repeated_ids: list[UUID]
    """Ids that producers gave to several messages: each of these is in every log, under one id."""
    repeated_id_counts: RepeatedIdsDocument | None
    """What the stream of the last store made of the messages of these ids; null: no id is repeated."""
    streams: list[StreamVerificationDocument]
    reader_problems: list[ReaderProblemDocument]
    """Readers of the route's stream that get nothing, or less than they should. They do not change the outcome."""

    @classmethod
    def of(cls, verification: RouteVerification, problems: Sequence[ReaderProblem]) -> VerificationDocument:
        counts = verification.repeated_id_counts
        return cls(
            route=verification.route,
            outcome=verification.outcome,
            verified_at=verification.verified_at,
            duration_seconds=verification.duration_seconds,
            hops=[LegDocument.of(leg) for leg in verification.hops],
            end_to_end=LegDocument.of(verification.end_to_end),
            senders=SenderOrder(count=verification.sender_count, out_of_order=list(verification.disordered_senders)),
            repeated_ids=list(verification.repeated_ids),
            repeated_id_counts=None if counts is None else RepeatedIdsDocument.model_validate(counts),
            streams=[StreamVerificationDocument.of(stream) for stream in verification.streams],
            reader_problems=[ReaderProblemDocument.model_validate(problem) for problem in problems],
        )
