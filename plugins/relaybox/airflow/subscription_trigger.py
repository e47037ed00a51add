"""The trigger that starts a DAG author's own DAG when messages wait for a subscription. Runs in the triggerer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import TriggerEvent

from relaybox.airflow.run_triggers import HopPoll, RunTriggers
from relaybox.airflow.store_trigger import StoreTrigger
from relaybox.airflow.store_watch import WORK_OF_SUBSCRIPTIONS
from relaybox.log_events import warn

POLL_SECONDS = 5.0


class SubscriptionTrigger(StoreTrigger):
    """Fires when more lanes of a subscription are behind than workers have leased; again each minute until no more are.

    It only looks: it fetches and acknowledges nothing. All triggers of one store with the same times share one session and one query.

    Args:
        relaybox_conn_id: Airflow connection of the store. Its login sees the subscription: relaybox_consumer, relaybox_driver or
            relaybox_viewer. The credentials are read in the triggerer.
        subscription: its name. While the store has none of this name, nothing fires.
        poll_seconds: the time between two looks at a store with messages that wait.
        max_poll_seconds: the longest time between two looks at a store without; None: poll_seconds.
        backoff: the factor from one such time to the next.
        listen: whether the session stays open in between, and `notify relaybox_work` ends the wait.
    """

    question = WORK_OF_SUBSCRIPTIONS
    connection_field = "relaybox_conn_id"

    def __init__(
        self,
        *,
        relaybox_conn_id: str,
        subscription: str,
        poll_seconds: float = POLL_SECONDS,
        max_poll_seconds: float | None = None,
        backoff: float = 2.0,
        listen: bool = True,
    ) -> None:
        super().__init__(poll_seconds=poll_seconds, max_poll_seconds=max_poll_seconds, backoff=backoff, listen=listen)
        self.relaybox_conn_id = relaybox_conn_id
        self.subscription = subscription

    def own_arguments(self) -> dict[str, Any]:
        return {"relaybox_conn_id": self.relaybox_conn_id, "subscription": self.subscription}

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Mapping[str, HopPoll]]) -> AsyncIterator[TriggerEvent]:
        run_triggers = RunTriggers()
        is_known = True
        async for found in shared_stream:
            if is_known and self.subscription not in found:
                warn("subscription_not_seen", connection=self.relaybox_conn_id, subscription=self.subscription)
            is_known = self.subscription in found
            if is_known and run_triggers.due(found[self.subscription], time.monotonic()):
                yield TriggerEvent({"subscription": self.subscription})  # type: ignore[no-untyped-call]
