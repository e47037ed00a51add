"""The task that checks all hops of a store, and triggers those with work and without a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Asset, AssetAlias, BaseOperator, TaskInstanceState
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.hop_state import HopLag, read_idle_hops, read_lags
from relaybox.airflow.late_hops import LateHop, choose_reports
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.errors import Transient
from relaybox.hops.store_ids import carry_topics_of
from relaybox.log_events import emit, warn
from relaybox.routes import Hop, Store, Watch
from relaybox.stores.opening import opened_store
from relaybox.streams.topics import find_unknown_topics

if TYPE_CHECKING:
    from airflow.sdk import Context

    LateCallback = Callable[[Context], object]

LOOK_SECONDS = 300
"""The time between two runs of the watch DAG: LOOK_CRON in seconds."""


@dataclass(frozen=True)
class WatchedHop:
    """A hop, the asset whose events start its transfer, and the one whose events start its confirmation.

    `late`: the asset whose events say that the hop is later than `target_lag_seconds`. `page`: of the hop. `carries_topics`: the hop
    itself, where consumers add topics by subscribing. `reads_outbox`: the hop itself, if it does.
    """

    name: str
    reads: Asset
    settles: Asset
    late: Asset
    target_lag_seconds: int
    page: str
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
    """One query for all hops that leave the store, one row of each that reads the outbox. An event too many does no harm.

    A hop that is later than its target is reported when it becomes late, and each hour: by an event of its asset, and by
    `on_late_callback`, whose context has the LateHop as `late_hop`.
    """

    def __init__(
        self,
        *,
        store: Store,
        hops: Sequence[WatchedHop],
        alias: AssetAlias,
        on_late_callback: Sequence[LateCallback] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.store = store
        self.hops = hops
        self.alias = alias
        self.on_late_callback = on_late_callback

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the hops that were triggered, and when each late hop was reported: the next look reads it.

        Only an error of the question which hops are idle ends the look before it has triggered any. Another error is a warning
        (`look_incomplete`) in a look that has events, since Airflow drops the events of a task that fails. A look without an event
        fails with it.

        Raises:
            AirflowSkipException: the store sleeps, and this is not one of the runs that wake it.
        """
        is_due = _due_stores(context)
        if not is_due(self.store):
            raise AirflowSkipException(
                f"Store {self.store.name} is looked at every {self.store.watch.max_interval_seconds:g} s, and not in this run."
            )
        errors: list[Exception] = []
        for carrying in [hop.carries_topics for hop in self.hops if hop.carries_topics]:
            if is_due(carrying.destination):
                with self._keep_error(errors, f"carrying the topics of hop {carrying.name}"):
                    _carry_topics(carrying)
        times = dict(_reported_before(context, self.task_id))
        events = context["outlet_events"][self.alias]
        with terminal_errors_fail_at_once(), service_file((self.store,)):
            idle = {hop.hop: hop for hop in read_idle_hops(self.store)}
            waiting = [hop for hop in self.hops if hop.name in idle and idle[hop.name].has_work]
            unsettled = [hop for hop in self.hops if hop.name in idle and idle[hop.name].is_unsettled]
            for hop in waiting:
                emit("hop_triggered", hop=hop.name, reason="work")
                events.add(hop.reads)
            for hop in unsettled:
                emit("hop_triggered", hop=hop.name, reason="unsettled")
                events.add(hop.settles)
            with self._keep_error(errors, "comparing the topics with relaybox.yaml"):
                _warn_of_unknown_topics(self.store, [hop.reads_outbox for hop in self.hops if hop.reads_outbox])
            with self._keep_error(errors, "reading the lag of its hops"):
                times = self._report_late_hops(context, times)
        if errors and not events.asset_alias_events:
            raise errors[0]
        return {"waiting": [hop.name for hop in waiting], "unsettled": [hop.name for hop in unsettled], "late": times}

    @contextmanager
    def _keep_error(self, errors: list[Exception], activity: str) -> Iterator[None]:
        """Adds an error of the block to `errors` and warns of it. The block triggers no hop, so its error must stop none."""
        try:
            with terminal_errors_fail_at_once():
                yield
        except Exception as error:  # noqa: BLE001  the end of the look decides
            errors.append(error)
            warn("look_incomplete", store=self.store.name, activity=activity, warning=f"{type(error).__name__}: {error}")

    def _report_late_hops(self, context: Context, reported: Mapping[str, str]) -> dict[str, str]:
        """Reports hops that became late or stay late for an hour; returns when each hop that is late now was reported."""
        late = _late_hops(self.hops, read_lags(self.store))
        now = datetime.now(UTC)
        times = {hop.name: reported[hop.name] for hop in late if hop.name in reported}
        late_assets = {hop.name: hop.late for hop in self.hops}
        for late_hop in choose_reports(late, reported, now):
            emit("hop_late", **asdict(late_hop))
            if self._report(context, late_hop):
                times[late_hop.name] = now.isoformat()
                context["outlet_events"][self.alias].add(late_assets[late_hop.name], extra=asdict(late_hop))
        return times

    def _report(self, context: Context, hop: LateHop) -> bool:
        """Calls the callbacks; whether all of them succeeded. One that fails stops no hop: the next look calls all of them again."""
        try:
            for callback in self.on_late_callback:
                # a notifier renders its own fields: the next hop needs one that is not rendered yet
                copy(callback)(cast("Context", {**context, "late_hop": hop}))
        except Exception as error:  # noqa: BLE001  code of others
            warn("late_hop_not_reported", hop=hop.name, warning=f"{type(error).__name__}: {error}")
            return False
        return True


def _late_hops(hops: Sequence[WatchedHop], lags: Mapping[str, HopLag]) -> list[LateHop]:
    return [
        LateHop(hop.name, lag.lag_seconds, hop.target_lag_seconds, lag.waiting_count, hop.page)
        for hop in hops
        if (lag := lags.get(hop.name)) is not None and lag.lag_seconds > hop.target_lag_seconds
    ]


def _reported_before(context: Context, task_id: str) -> Mapping[str, str]:
    """When the hops that were late at the last look were reported. Nothing for a run that a person started: it reports all."""
    run, ti = context.get("dag_run"), context["ti"]
    if not run or run.run_type == "manual" or run.logical_date is None:
        return {}
    previous = ti.get_previous_ti(state=TaskInstanceState.SUCCESS)
    if previous is None:
        return {}
    result = ti.xcom_pull(task_ids=task_id, run_id=previous.run_id)
    return dict(result.get("late", {})) if isinstance(result, Mapping) else {}


def _due_stores(context: Context) -> Callable[[Store], bool]:
    """Answers whether this run opens a session in a store. A run that a person started opens one in each."""
    run = context.get("dag_run")
    if not run or run.run_type == "manual" or run.logical_date is None:
        return lambda _: True
    previous = context["ti"].get_previous_ti(state=TaskInstanceState.SUCCESS)
    run_at, looked_at = run.logical_date, previous.logical_date if previous else None
    return lambda store: is_look_due(run_at, looked_at, store.watch)


def _carry_topics(hop: Hop) -> None:
    with service_file((hop.source, hop.destination)):
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
