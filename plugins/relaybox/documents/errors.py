"""The answer of a command that failed."""

from __future__ import annotations

from relaybox.documents.document import Document


class Failure(Document):
    """An error."""

    kind: str
    """The name of its class in relaybox.errors."""
    message: str
    next_step: str
    """What to do; empty where there is nothing to say."""
    retry_may_help: bool
    exit_code: int


class ErrorDocument(Document):
    """The only answer of a command that failed."""

    error: Failure
