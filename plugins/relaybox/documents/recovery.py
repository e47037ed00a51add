"""Answers of `relaybox reanchor`, `attest` and `rebuild`."""

from __future__ import annotations

from typing import Literal

from relaybox.documents.document import Document


class GhostDocument(Document):
    """A message that the destination has and the source lost."""

    log_position: int
    message_id: str
    sender: str
    topic: str


class HeldIndexesDocument(Document):
    """Indexes of a sender that ghosts have. The destination sets aside what the source sends with one of them later."""

    sender: str
    epoch: int
    ghost_count: int
    first_index: int
    """The smallest of them."""
    last_index: int
    """The largest of them; not every index between need be one."""
    undelivered_count: int
    """Messages that the hop reads next and that have one of them."""


class ReanchorDocument(Document):
    """The answer of `relaybox reanchor`: what was found, and what is done about it or would be."""

    hop: str
    loss: Literal["none", "source", "destination", "both"]
    """Who lost history."""
    generation: int
    common_batch: int
    """The newest batch that both ledgers know as the same."""
    arrived_batch: int
    """The newest batch that the destination has."""
    adopted_count: int
    """Messages at the destination that the source's ledger does not know."""
    ghosts: list[GhostDocument]
    """Those of them that the source does not have either."""
    held_indexes: list[HeldIndexesDocument]
    """By sender that numbers its messages, the indexes of its ghosts."""
    undelivered_count: int
    """Messages that the new generation delivers first."""
    removed_count: int
    """Messages of slices that were copied and never published; they are copied anew if the source still has them."""
    resend_count: int
    """Batches that are sent again because the destination lost them."""
    cause: str | None
    """What tells that history was lost."""
    may_be_attested: bool
    """If the source lost nothing, it is to be attested, not reanchored."""
    other_stores: list[str]
    """Stores of the hop that are other databases than before; the hop records them as its own."""
    done: bool


class AttestDocument(Document):
    """The answer of `relaybox attest`: the fingerprint that was recorded."""

    store: str
    system_identifier: int
    timeline: int
    hops: list[str]
    changed: bool
    """False: it was known already."""


class HopToRebuildDocument(Document):
    """A hop of the store, as the store at its other end knows it."""

    hop: str
    arrives: bool
    """It arrives in the store; else it leaves it."""
    other_store: str
    message_count: int
    known_count: int
    """How many of them this store knows of."""


class RestoredSubscriptionDocument(Document):
    """A subscription made anew."""

    subscription: str
    stream: str
    first_stream_position: int
    """The first that its slowest lane reads."""
    doubt: str | None
    """Why it starts at the beginning."""
    dead_letter_stream_positions: list[int]
    """Messages that were dead letters when it was saved; their letters are lost."""


class RebuildDocument(Document):
    """The answer of `relaybox rebuild`."""

    store: str
    done: bool
    hops: list[HopToRebuildDocument]
    losses: list[str]
    """What no other store has; nothing is done about it."""
    doubts: dict[str, str]
    """By stream whose stream positions may differ from the lost ones, why: no cursor is restored there."""
    moved_count: int
    """Messages that were sent to this store."""
    outcomes: dict[str, str] | None
    """By route through the store: delivered, in flight or defects."""
    duration_seconds: float
    is_needed: bool
    subscriptions: list[RestoredSubscriptionDocument]
