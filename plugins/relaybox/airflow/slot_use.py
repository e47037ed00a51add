"""How long a transfer holds its slot of the executor without a message, and when it gives the slot back while messages flow.

An idle hop needs no task: the triggerer watches its store, and a message starts the next task (decision 34).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError

from relaybox.airflow.naming import transfer_dag_id_of
from relaybox.log_events import emit
from relaybox.routes import Hop

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

IDLE_SECONDS = 3.0
"""The longest time without a message, of threads and of a client of Spark Connect. A new task costs about as much."""

APPLICATION_IDLE_SECONDS = 5.0
"""The same of a Spark application of its own, which takes ten seconds to start."""

_WITH_WORKERS = ("LocalExecutor", "CeleryExecutor", "EdgeExecutor")

ASKED_HOPS = 5
"""About so many other hops Airflow is asked at once."""


def idle_seconds(hop: Hop) -> float:
    """How long this hop's task waits for more messages: as its route says, and no longer than a slot may be held."""
    return min(hop.limits.linger_seconds, IDLE_SECONDS)


def waiting_states(executor: str) -> list[str]:
    """The states of a task that waits for a slot. Where each task has a pod of its own, `queued` is a pod that starts."""
    return ["scheduled", "queued"] if any(name in executor for name in _WITH_WORKERS) else ["scheduled"]


class SlotDemand:
    """Whether another hop's transfer waits for a slot: Airflow says so in two looks, one after the other.

    One look proves nothing: each task waits for a moment until the scheduler sees it.
    """

    def __init__(self, hop: Hop, ti: RuntimeTaskInstanceProtocol) -> None:
        self._hop = hop
        self._ti = ti
        self._waiting: set[str] = set()
        self._states = waiting_states(conf.get_mandatory_value("core", "executor"))

    def is_slot_wanted(self, hops: Sequence[str]) -> bool:
        """Asked by the driver while it lingers; `hops` have work and no driver."""
        waited, self._waiting = self._waiting, {hop for hop in hops[:ASKED_HOPS] if self._waits_for_slot(hop)}
        still_waiting = sorted(waited & self._waiting)
        if still_waiting:
            emit("slot_given_back", hop=self._hop.name, wanted_by=still_waiting[0])
        return bool(still_waiting)

    def _waits_for_slot(self, hop: str) -> bool:
        """A task is `scheduled` while its pool is full, and `scheduled` or `queued` while the executor is.

        An Airflow that can't answer now fails no transfer: the slot is kept, and the next look asks again.
        """
        try:
            return self._ti.get_ti_count(dag_id=transfer_dag_id_of(hop), states=self._states) > 0
        except AirflowRuntimeError as error:
            emit("slot_demand_unknown", hop=self._hop.name, error=error)
            return False
