"""Answers of `relaybox holdback` and `relaybox skip`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Text, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.streams.holdback import StoreHoldback


class IndexGap(Document):
    """Indexes of a sender, both ends included."""

    first_index: int
    last_index: int


class HoldCause(Document):
    """What clocks of held messages ask of another sender, and what has not been delivered."""

    sender: str
    epoch: int
    first_index: int
    last_index: int
    waiting_count: int
    """Held messages that ask."""
    delivered_through: int | None
    """Null: nothing of this sender has come."""
    origin: str | None
    """The store that declared it; null: no store of the stream has declared it so far."""
    first_waiting_index: int
    """Of the first held message that asks."""


class HeldSenderDocument(Document):
    """A sender whose messages wait at a store."""

    sender: str
    epoch: int
    origin: str
    delivered_through: int
    """Every index up to it was delivered, set aside or given up."""
    missing: list[IndexGap]
    held_count: int
    first_held_index: int | None
    held_since: Time | None
    """When the first of the held messages came; null when nothing is held."""
    stalled_after: int | None
    """Since it stalled, its messages beyond this position of the log wait there."""
    stalled_reason: str | None
    waiting_count: int
    """How many wait so."""
    causes: list[HoldCause]
    repairs: list[str]
    """Commands that give up what is missing, once it is known that it never comes; for a sender that waits for held messages of
    another, those of that one. At most 20; when they are done, the next ones are named."""


class StoreHoldbackDocument(Document):
    """What one store holds back of a stream."""

    store: str
    route: str
    stream: str
    order: str
    senders: list[HeldSenderDocument]
    error: Text | None
    """Why the store could not be asked."""


class HoldbackDocument(Document):
    """The answer of `relaybox holdback`."""

    stores: list[StoreHoldbackDocument]

    @classmethod
    def of(cls, stores: Sequence[StoreHoldback]) -> HoldbackDocument:
        return cls(stores=[StoreHoldbackDocument.model_validate(store) for store in stores])


class StoreSkip(Document):
    """What a skip did at one store."""

    store: str
    epoch: int | None
    gap: IndexGap | None
    """Null where there was no such gap."""
    released: int
    why_not: str


class SkipDocument(Document):
    """The answer of `relaybox skip`."""

    route: str
    sender: str
    stores: list[StoreSkip]
    errors: dict[str, str]
    """By store. The stores after it were not asked."""
