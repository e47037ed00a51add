"""The task that checks all hops of a store, and triggers those with work and without a driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, TaskInstanceState
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.hop_state import read_idle_hops
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.errors import Transient
from relaybox.hops.store_ids import carry_topics_of
from relaybox.log_events import emit, warn
from relaybox.routes import Hop, Store, Watch
from relaybox.stores.schema import opened_store
from relaybox.streams.topics import find_unknown_topics

if TYPE_CHECKING:
    from airflow.sdk import Context

LOOK_SECONDS = 300
"""The time between two runs of the watch DAG: LOOK_CRON in seconds."""


@dataclass(frozen=True)
class WatchedHop:
    """A hop, the asset whose events start its transfer, and the one whose events start its confirmation.

    `carries_topics`: the hop itself, where consumers add topics by subscribing. `reads_outbox`: the hop itself, if it does.
    """

    name: str
    reads: Asset
    settles: Asset
    carries_topics: Hop | None = None
    reads_outbox: Hop | None = None


def is_look_due(run_at: datetime, looked_at: datetime | None, watch: Watch) -> bool:
    """Whether a run opens a session in a store with this watch; a session would wake a store that sleeps.

    The first run of each max_interval_seconds of the clock does. A run that Airflow missed is made up by the next one.

    Args:
        run_at: the logical date of the run.
        looked_at: that of the run before it whose look succeeded; None: there is none.
        watch: of the store.
    """
    if watch.listen or watch.max_interval_seconds <= LOOK_SECONDS or looked_at is None:
        return True
    return run_at.timestamp() // watch.max_interval_seconds > looked_at.timestamp() // watch.max_interval_seconds


class StoreLookOperator(BaseOperator):
    """One query for all hops that leave the store, one row of each that reads the outbox. An event too many does no harm."""

    def __init__(self, *, store: Store, hops: Sequence[WatchedHop], alias: AssetAlias, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store = store
        self.hops = hops
        self.alias = alias

    def execute(self, context: Context) -> dict[str, list[str]]:
        """Returns the hops that were triggered, for display in XCom.

        Raises:
            AirflowSkipException: the store sleeps, and this is not one of the runs that wake it.
        """
        is_due = _due_stores(context)
        if not is_due(self.store):
            raise AirflowSkipException(
                f"Store {self.store.name} is looked at every {self.store.watch.max_interval_seconds:g} s, and not in this run."
            )
        for carrying in [hop.carries_topics for hop in self.hops if hop.carries_topics]:
            if is_due(carrying.destination):
                _carry_topics(carrying)
        with terminal_errors_fail_at_once(), service_file((self.store,)):
            idle = {hop.hop: hop for hop in read_idle_hops(self.store)}
            _warn_of_unknown_topics(self.store, [hop.reads_outbox for hop in self.hops if hop.reads_outbox])
        waiting = [hop for hop in self.hops if hop.name in idle and idle[hop.name].has_work]
        unsettled = [hop for hop in self.hops if hop.name in idle and idle[hop.name].is_unsettled]
        events = context["outlet_events"][self.alias]
        for hop in waiting:
            emit("hop_triggered", hop=hop.name, reason="work")
            events.add(hop.reads)
        for hop in unsettled:
            emit("hop_triggered", hop=hop.name, reason="unsettled")
            events.add(hop.settles)
        return {"waiting": [hop.name for hop in waiting], "unsettled": [hop.name for hop in unsettled]}


def _due_stores(context: Context) -> Callable[[Store], bool]:
    """Answers whether this run opens a session in a store. A run that a person started opens one in each."""
    run = context.get("dag_run")
    if not run or run.run_type == "manual" or run.logical_date is None:
        return lambda _: True
    previous = context["ti"].get_previous_ti(state=TaskInstanceState.SUCCESS)
    run_at, looked_at = run.logical_date, previous.logical_date if previous else None
    return lambda store: is_look_due(run_at, looked_at, store.watch)


def _carry_topics(hop: Hop) -> None:
    with terminal_errors_fail_at_once(), service_file((hop.source, hop.destination)):
        try:
            carry_topics_of(hop)
        except Transient as error:  # the next look tries again; a destination that is down must hide no other hop
            emit("topics_not_carried", hop=hop.name, error=error)


def _warn_of_unknown_topics(store: Store, hops: Sequence[Hop]) -> None:
    """A hop that moves nothing of its new topics has no work: its own task does not run, and says nothing."""
    if not hops:
        return
    with opened_store(store, application_name="relaybox look") as session:
        for hop in hops:
            if error := find_unknown_topics(session, hop):
                warn("topics_unknown", hop=hop.name, warning=str(error))
