"""Answers of `relaybox dead-letters`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from relaybox.documents.document import Document, SentObject, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.subscriptions.dead_letters import DeadLetter


class DeadLetterDocument(Document):
    """A message that a stream or a subscription set aside. The answer of `relaybox dead-letters show`."""

    store: str
    dead_letter_id: int
    state: str
    stream: str
    subscription: str | None
    lane: int | None
    stream_position: int | None
    reason: str
    detail: str | None
    attempts: int
    first_at: Time
    last_at: Time
    last_by: str
    resolved_at: Time | None
    """When it was redriven or dropped."""
    resolved_by: str | None
    resolved_reason: str | None
    hop: str
    log_position: int
    message_id: UUID | None
    topic: str | None
    sender: str | None
    key: str | None
    payload: str | None
    """In a list its beginning. Null where the log is no longer kept, and for who may not read it."""
    payload_size_bytes: int | None
    """Of the whole payload as it was sent."""
    headers: SentObject


class DeadLettersDocument(Document):
    """The answer of `relaybox dead-letters list`."""

    dead_letters: list[DeadLetterDocument]
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, dead_letters: Sequence[DeadLetter], errors: dict[str, str]) -> DeadLettersDocument:
        return cls(dead_letters=[DeadLetterDocument.model_validate(one) for one in dead_letters], errors=errors)


class RedrivenDocument(Document):
    """The answer of `relaybox dead-letters redrive`."""

    subscription: str
    redriven: int
    """How many."""


class DroppedDocument(Document):
    """The answer of `relaybox dead-letters drop`."""

    store: str
    dead_letter_id: int
    dropped: bool
