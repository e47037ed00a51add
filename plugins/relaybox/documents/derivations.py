"""Answers of `relaybox derive`."""

from __future__ import annotations

from typing import Any

from relaybox.documents.document import Document


class DerivationDocument(Document):
    """The answer of `relaybox derive`: what this run did."""

    route: str
    version: int
    attempts: int
    """Attempts that published."""
    messages: int
    """Messages of the stream, of which they derived."""
    derived: int
    """Messages that they sent."""
    dead_letters: int
    """Messages for which the function fails, which this run set aside."""


class DerivationPreviewDocument(Document):
    """The answer of `relaybox derive --dry-run`: what the function returns for the next messages."""

    route: str
    version: int
    source: str
    """`package.module:function`, or `sql`."""
    first_stream_position: int
    """At which the derivation goes on, or would begin."""
    last_stream_position: int
    """Of the messages that the function got; below the first: there are none."""
    messages: int
    """Messages that the function got."""
    derived: int
    """Messages that it would send."""
    samples: list[dict[str, Any]]
    """The first of these, by column."""
