"""Answers of `relaybox adopt` and `relaybox unadopt`."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from relaybox.adoption.mapping import write_map
from relaybox.documents.document import Document

if TYPE_CHECKING:
    from relaybox.adoption.adopting import Adoption, SentUnmapped
    from relaybox.adoption.examination import Examination, PreviewedMessage
    from relaybox.adoption.tables import WantedAdoption


class ObstacleDocument(Document):
    """What keeps a table from being adopted, or is worth knowing."""

    is_refusal: bool
    problem: str
    next_step: str


class UnmappedRowsDocument(Document):
    """Rows that can't be messages, for one reason."""

    problem: str
    row_count: int
    first_rows: list[str]
    """As JSON, shortened."""


class PreviewedMessageDocument(Document):
    """A row as it would travel."""

    message_id: str | None
    """Null: the store makes one."""
    topic: str | None
    sender: str | None
    key: str | None
    headers: dict[str, Any] | None
    payload: str | None
    payload_base64: str | None
    problem: str | None
    """Why it would not travel."""

    @classmethod
    def of(cls, message: PreviewedMessage) -> PreviewedMessageDocument:
        return cls(
            message_id=None if message.message_id is None else str(message.message_id),
            topic=message.topic,
            sender=message.sender,
            key=message.key,
            headers=message.headers,
            payload=message.payload,
            payload_base64=None if message.payload_bytes is None else b64encode(message.payload_bytes).decode("ascii"),
            problem=message.problem,
        )


class AdoptionPlanDocument(Document):
    """The answer of `relaybox adopt --dry-run`."""

    store: str
    table: str
    map: dict[str, Any]
    """As relaybox.yaml writes it."""
    on_unmapped: str
    is_in_file: bool
    order: list[str]
    """Columns that order a backlog."""
    obstacles: list[ObstacleDocument]
    unmapped: list[UnmappedRowsDocument]
    messages: list[PreviewedMessageDocument]
    """The first ten rows, in the order of a backlog."""

    @classmethod
    def of(cls, store: str, wanted: WantedAdoption, examination: Examination) -> AdoptionPlanDocument:
        return cls(
            store=store,
            table=wanted.table.name,
            map=write_map(wanted.mapping),
            on_unmapped=wanted.on_unmapped,
            is_in_file=wanted.is_in_file,
            order=list(examination.order),
            obstacles=[ObstacleDocument.model_validate(one) for one in examination.obstacles],
            unmapped=[UnmappedRowsDocument.model_validate(one) for one in examination.unmapped],
            messages=[PreviewedMessageDocument.of(one) for one in examination.messages],
        )


class AdoptionDocument(Document):
    """The answer of `relaybox adopt`."""

    store: str
    table: str
    map: dict[str, Any]
    """As relaybox.yaml writes it."""
    on_unmapped: str
    is_in_file: bool
    """Whether relaybox.yaml has the table; if not, it should."""
    is_new: bool
    changed: list[str]
    """Of an adoption that was there."""
    backlog_count: int | None
    """Rows of before the adoption; null: they were not asked for."""
    moved_count: int
    """Messages that this command moved into the outbox: of the backlog, and what was inserted meanwhile."""
    unmapped_count: int
    """Rows that can't be messages and are kept apart, those of earlier inserts included."""
    locked_seconds: float
    """For how long writers were kept out."""
    sent_unmapped_count: int
    left_unmapped: list[UnmappedRowsDocument]
    """With --send-unmapped: the rows that are left, with the reason. The exit code is 1 if there are any."""
    notes: list[str]

    @classmethod
    def of(cls, done: Adoption, sent: SentUnmapped) -> AdoptionDocument:
        return cls(
            store=done.store,
            table=done.table,
            map=write_map(done.wanted.mapping),
            on_unmapped=done.wanted.on_unmapped,
            is_in_file=done.wanted.is_in_file,
            is_new=done.is_new,
            changed=list(done.changed),
            backlog_count=done.backlog_count,
            moved_count=done.moved_count,
            unmapped_count=done.unmapped_count - sent.sent_count,
            locked_seconds=done.locked_seconds,
            sent_unmapped_count=sent.sent_count,
            left_unmapped=[UnmappedRowsDocument.model_validate(one) for one in sent.left],
            notes=[one.problem for one in done.examination.obstacles],
        )


class UnadoptedDocument(Document):
    """The answer of `relaybox unadopt`."""

    store: str
    table: str
    was_adopted: bool
    moved_count: int
    """Messages that waited behind a backlog, and are in the outbox now."""
    dropped_count: int
    """Unmapped rows that are given up."""
