"""Whether a store gives messages again only after an approval, and the subscription that an approval is about."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store


def requires_approval(store: Store) -> bool:
    """What the last `relaybox init` recorded; one short session."""
    with store_session(store, "asking whether an approval is required", application_name="relaybox subscriptions") as session:
        return bool(session.value("select s.require_approval from relaybox_internal.store s"))


class PinnedSubscription(NamedTuple):
    """A subscription itself, not its name: a name may end and begin anew while an approval is waited for."""

    subscription_id: int
    subscribed_at: datetime


def pin_subscription(store: Store, subscription: str, stream: str) -> PinnedSubscription:
    """The open subscription of this name, for an approval; one short session.

    Raises:
        NotSubscribed: the store has none, or it reads another stream.
    """
    with store_session(store, f"reading subscription {subscription}", application_name="relaybox subscriptions") as session:
        found = session.row_if_any(
            PinnedSubscription,
            "select n.subscription_id, n.subscribed_at from relaybox_internal.subscription n join relaybox_internal.stream s "
            "on s.stream_id = n.stream_id where n.subscription = %s and n.ended_at is null and s.stream = %s",
            *(subscription, stream),
        )
    if found is None:
        raise errors.NotSubscribed(f"store {store.name} has no subscription {subscription} to stream {stream}.")
    return found
