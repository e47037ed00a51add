"""Answers of `relaybox topics list`, `grant` and `revoke`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.subscriptions.topic_grants import TopicGrant


class TopicGrantDocument(Document):
    """A database role that may read a topic."""

    store: str
    topic: str
    """`*`: every topic."""
    role: str
    granted_at: Time
    granted_by: str
    role_exists: bool
    """False: the role was dropped or renamed."""
    topic_exists: bool
    """False: no stream of the store has carried the topic yet."""
    is_enforced: bool
    """Whether the store refuses roles without a grant."""


class TopicGrantsDocument(Document):
    """The answer of `relaybox topics list`."""

    grants: list[TopicGrantDocument]
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, grants: Sequence[TopicGrant], errors: dict[str, str]) -> TopicGrantsDocument:
        return cls(grants=[TopicGrantDocument.model_validate(one) for one in grants], errors=errors)


class TopicsGrantedDocument(Document):
    """The answer of `relaybox topics grant`."""

    store: str
    role: str
    topics: list[str]
    changed: list[str]
    """The topics that had not been granted to the role."""
    unknown: list[str]
    """The topics that no stream of the store has carried yet."""
    is_enforced: bool
    """Whether the store refuses roles without a grant."""


class TopicsRevokedDocument(Document):
    """The answer of `relaybox topics revoke`."""

    store: str
    role: str
    topics: list[str]
    changed: list[str]
    """The topics that had been granted to the role."""
    readable: list[str]
    """The topics that the role reads nevertheless: by another grant, or as a member of an exempt role."""
    is_enforced: bool
    """Whether the store refuses roles without a grant."""
