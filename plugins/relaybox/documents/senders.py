"""Answers of `relaybox senders`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.streams.senders import DeclaredSender


class SenderDocument(Document):
    """A sender as a store knows it."""

    store: str
    sender: str
    origin: str
    kind: str
    epoch: int
    """0 of a sender that is bound and not declared."""
    declared_at: Time | None
    declared_by: str | None
    last_index: int | None
    """Of a gapless sender at its origin; else null."""
    roles: list[str]
    """Bound here."""


class SendersDocument(Document):
    """The answer of `relaybox senders list`."""

    senders: list[SenderDocument]
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, senders: Sequence[DeclaredSender], errors: dict[str, str]) -> SendersDocument:
        return cls(senders=[SenderDocument.model_validate(one) for one in senders], errors=errors)


class DeclaredDocument(Document):
    """The answer of `relaybox senders declare`."""

    store: str
    sender: str
    kind: str
    epoch: int


class NewEpochDocument(Document):
    """The answer of `relaybox senders new-epoch`."""

    store: str
    sender: str
    epoch: int


class BoundDocument(Document):
    """The answer of `relaybox senders bind`."""

    store: str
    sender: str
    role: str
    changed: bool
    is_enforced: bool
    """Whether the store has `bind_senders` on."""


class UnboundDocument(Document):
    """The answer of `relaybox senders unbind`."""

    store: str
    sender: str
    role: str
    changed: bool
