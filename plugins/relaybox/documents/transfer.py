"""Answers of `relaybox transfer` and `relaybox confirm`."""

from __future__ import annotations

from relaybox.documents.document import Document


class TransferDocument(Document):
    """The answer of `relaybox transfer`: what this run moved."""

    hop: str
    batch_count: int
    row_count: int
    byte_count: int
    resumed_count: int
    """Batches that an earlier run had begun."""
    duration_seconds: float
    """Includes lingering."""
    moving_seconds: float
    waiting_for_init: str | None
    """Topics of relaybox.yaml that the store does not move yet, as an error says it; null: there are none."""
    rows_per_second: float


class SettledHop(Document):
    """How far a hop is settled."""

    hop: str
    through_position: int
    newly_settled: int


class ConfirmDocument(Document):
    """The answer of `relaybox confirm`."""

    hops: list[SettledHop]
    errors: dict[str, str]
    """By hop."""
