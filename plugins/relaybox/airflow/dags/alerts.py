"""The callbacks and notifiers of a team on the generated DAGs: a run failed, a run is overdue, a hop is later than its target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG
from airflow.sdk.definitions.callback import AsyncCallback, SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.routes import Routes

if TYPE_CHECKING:
    from airflow.sdk import Context

    AlertCallback = Callable[[Context], Any]


@dataclass(frozen=True)
class Alerts:
    """What build_dags() was given. Empty: no alert."""

    on_failure_callback: Sequence[AlertCallback] = ()
    on_late_callback: Sequence[AlertCallback] = ()
    deadline_callback: AsyncCallback | SyncCallback | None = None


NO_ALERTS = Alerts()


def as_list(callbacks: AlertCallback | Iterable[AlertCallback] | None) -> tuple[AlertCallback, ...]:
    """Returns one callback, several or none as a tuple.

    Raises:
        TypeError: one of them cannot be called.
    """
    if callbacks is None:
        return ()
    listed = (callbacks,) if callable(callbacks) else tuple(callbacks)
    for callback in listed:
        if not callable(callback):
            raise TypeError(f"{callback!r} cannot be called: give a notifier, or a function that takes the context.")
    return listed


def add_alerts(dags: Mapping[str, DAG], routes: Routes, alerts: Alerts) -> None:
    """Puts the callbacks on every DAG, and deadlines on transfers and confirmations.

    A confirmation is overdue when it has not ended `limits.target_lag_seconds` after it was queued. A transfer goes on while messages
    come, for `limits.run_timeout_seconds`: it is overdue when it has not ended this long and the target after it was queued.
    """
    for dag in dags.values():
        if alerts.on_failure_callback:
            dag.on_failure_callback = list(alerts.on_failure_callback)
            dag.has_on_failure_callback = True
    if alerts.deadline_callback is None:
        return
    for hop in routes.hops:
        target, run = timedelta(seconds=hop.limits.target_lag_seconds), timedelta(seconds=hop.limits.run_timeout_seconds)
        for dag_id, interval in ((transfer_dag_id(hop), run + target), (confirm_dag_id(hop), target)):
            if dag_id in dags:
                dags[dag_id].deadline = [
                    DeadlineAlert(
                        name=f"{dag_id} is overdue",
                        reference=DeadlineReference.DAGRUN_QUEUED_AT,
                        interval=interval,
                        callback=alerts.deadline_callback,
                    )
                ]
