"""Answers of `relaybox subscriptions bindings`, `bind` and `unbind`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.subscriptions.bindings import SubscriptionBinding


class SubscriptionBindingDocument(Document):
    """A database role that may use a subscription."""

    store: str
    subscription: str
    """Its name; there may be no such subscription yet."""
    role: str
    bound_at: Time
    bound_by: str
    role_exists: bool
    """False: the role was dropped or renamed."""
    is_enforced: bool
    """Whether the store refuses roles that are not bound."""


class SubscriptionBindingsDocument(Document):
    """The answer of `relaybox subscriptions bindings`."""

    bindings: list[SubscriptionBindingDocument]
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, bindings: Sequence[SubscriptionBinding], errors: dict[str, str]) -> SubscriptionBindingsDocument:
        return cls(bindings=[SubscriptionBindingDocument.model_validate(one) for one in bindings], errors=errors)


class SubscriptionBoundDocument(Document):
    """The answer of `relaybox subscriptions bind`."""

    store: str
    subscription: str
    role: str
    changed: bool
    is_enforced: bool
    """Whether the store refuses roles that are not bound."""


class SubscriptionUnboundDocument(Document):
    """The answer of `relaybox subscriptions unbind`."""

    store: str
    subscription: str
    role: str
    changed: bool
