"""Whether a store gives messages again only after an approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.stores.schema import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store


def requires_approval(store: Store) -> bool:
    """What the last `relaybox init` recorded; one short session."""
    with store_session(store, "asking whether an approval is required", application_name="relaybox subscriptions") as session:
        return bool(session.value("select s.require_approval from relaybox_internal.store s"))
