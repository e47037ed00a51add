"""Answers of `relaybox export` and `relaybox verify-lake`."""

from __future__ import annotations

from relaybox.documents.document import Document


class ExportDocument(Document):
    """The answer of `relaybox export`: what this run added to the table."""

    export: str
    path: str
    first_stream_position: int
    last_stream_position: int
    """Of what it added; below the first: nothing."""
    version: int
    """Of the table, as its format counts."""
    batches: int
    """Commits."""
    messages: int
    files: int
    removed_attempts: int
    """Dead attempts whose files it removed."""


class ExportPreviewDocument(Document):
    """The answer of `relaybox export --dry-run`: what an export would add now."""

    export: str
    path: str
    first_stream_position: int
    last_stream_position: int
    """Below the first: nothing."""
    messages: int


class RangeComparisonDocument(Document):
    """A range of stream positions, both ends included, in the stream and in the table."""

    first: int
    last: int
    stream_count: int | None
    """Messages in the stream; null where the store does not keep the range any more."""
    lake_count: int
    """Messages in the table."""
    stream_digest: str | None
    lake_digest: str
    """SHA-256 of all columns, in the order of the stream."""
    first_difference: int | None
    """The first stream position that is missing, doubled or different; null: none."""


class LakeVerificationDocument(Document):
    """The answer of `relaybox verify-lake`."""

    export: str
    path: str
    version: int
    first_stream_position: int
    last_stream_position: int
    """That the table has; below the first: none."""
    compared_from: int
    """From this stream position on rows are compared; those before are no longer in the store, and are counted."""
    is_equal: bool
    ranges: list[RangeComparisonDocument]
