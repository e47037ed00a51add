"""Answers of `relaybox operators list`, `bind` and `unbind`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.subscriptions.operators import StreamOperator


class StreamOperatorDocument(Document):
    """A database role that acts on all subscriptions of a stream."""

    store: str
    stream: str
    """Its name; there may be no such stream."""
    role: str
    bound_at: Time
    bound_by: str
    role_exists: bool
    """False: the role was dropped or renamed."""
    role_is_operator: bool
    """Whether the role inherits relaybox_operator. If not, the binding has an effect only for members that do so themselves."""
    stream_exists: bool
    is_enforced: bool
    """Whether the store binds subscriptions to roles. If not, every consumer acts on every subscription."""


class StreamOperatorsDocument(Document):
    """The answer of `relaybox operators list`."""

    operators: list[StreamOperatorDocument]
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, operators: Sequence[StreamOperator], errors: dict[str, str]) -> StreamOperatorsDocument:
        return cls(operators=[StreamOperatorDocument.model_validate(one) for one in operators], errors=errors)


class OperatorBoundDocument(Document):
    """The answer of `relaybox operators bind`."""

    store: str
    stream: str
    role: str
    changed: bool
    role_is_operator: bool
    """Whether the role inherits relaybox_operator. If not, the binding has an effect only for members that do so themselves."""
    stream_exists: bool
    is_enforced: bool
    """Whether the store binds subscriptions to roles. If not, every consumer acts on every subscription."""


class OperatorUnboundDocument(Document):
    """The answer of `relaybox operators unbind`."""

    store: str
    stream: str
    role: str
    changed: bool
