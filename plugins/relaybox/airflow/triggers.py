"""The trigger that starts a hop without anyone's click. Runs in the triggerer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import TriggerEvent

from relaybox.airflow.run_triggers import HopPoll, RunTriggers
from relaybox.airflow.store_trigger import StoreTrigger
from relaybox.airflow.store_watch import WORK_OF_HOPS

POLL_SECONDS = 1.0


class HopWorkTrigger(StoreTrigger):
    """Fires when a hop has work and no driver. All hops that leave a store share one session to it.

    Args:
        hop: the hop; with it, no two assets share a trigger.
        connection: the Airflow connection of the hop's source. Its id only: the credentials are read in the triggerer.
        patience_seconds: how long the work may lie before the first event.
        poll_seconds: the time between two looks at a store with work.
        max_poll_seconds: the longest time between two looks at a store without work; None: poll_seconds.
        backoff: the factor from one such time to the next.
        listen: whether the session stays open in between, and a NOTIFY of an application ends the wait.
    """

    question = WORK_OF_HOPS
    connection_field = "connection"

    def __init__(
        self,
        *,
        hop: str,
        connection: str,
        patience_seconds: float = 0.0,
        poll_seconds: float = POLL_SECONDS,
        max_poll_seconds: float | None = None,
        backoff: float = 2.0,
        listen: bool = True,
    ) -> None:
        super().__init__(poll_seconds=poll_seconds, max_poll_seconds=max_poll_seconds, backoff=backoff, listen=listen)
        self.hop = hop
        self.connection = connection
        self.patience_seconds = patience_seconds

    def own_arguments(self) -> dict[str, Any]:
        return {"hop": self.hop, "connection": self.connection, "patience_seconds": self.patience_seconds}

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Mapping[str, HopPoll]]) -> AsyncIterator[TriggerEvent]:
        run_triggers = RunTriggers(patience_seconds=self.patience_seconds)
        async for sightings in shared_stream:
            sighting = sightings.get(self.hop)
            if sighting is not None and run_triggers.due(sighting, time.monotonic()):
                yield TriggerEvent({"hop": self.hop})  # type: ignore[no-untyped-call]
