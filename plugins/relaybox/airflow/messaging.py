"""Subscriptions as queues of Airflow's provider common.messaging: `MessageQueueTrigger(scheme="relaybox", ...)`.

Only that provider imports this module, and only where it is installed: `pip install 'relaybox[messaging]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider

from relaybox.airflow.subscription_trigger import SubscriptionTrigger

if TYPE_CHECKING:
    from airflow.triggers.base import BaseEventTrigger


class RelayboxMessageQueueProvider(BaseMessageQueueProvider):
    """The arguments of the queue are those of SubscriptionTrigger."""

    scheme = "relaybox"

    def queue_matches(self, queue: str) -> bool:
        """No: addresses of queues are deprecated."""
        return False

    def trigger_kwargs(self, queue: str, **kwargs: Any) -> dict[str, Any]:
        return {}

    def trigger_class(self) -> type[BaseEventTrigger]:
        return SubscriptionTrigger
