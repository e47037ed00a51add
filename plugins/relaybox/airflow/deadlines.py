"""The alert of a transfer that has not ended when its messages should have arrived."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.observability import stats

from relaybox.events import emit
from relaybox.routes import Hop

LINGER_AT_MOST_SECONDS = 600.0
"""A transfer that lingers ends after so long, also if messages still come; as in a Spark application."""


def target_deadline(hop: Hop) -> DeadlineAlert:
    """Counts from the moment when the run was queued: a scheduler or a pool that is too slow is alarmed too.

    A run that may linger is given that time: its messages have arrived long before it ends. The lag itself is alarmed by
    the metric `relaybox_hop_lag_seconds`.
    """
    seconds = hop.limits.target_lag_seconds + (LINGER_AT_MOST_SECONDS if hop.limits.linger_seconds else 0.0)
    return DeadlineAlert(
        name=f"{hop.name} arrives within its target",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=seconds),
        callback=SyncCallback(tell_missed_target, kwargs={"hop": hop.name, "seconds": seconds}),
    )


def tell_missed_target(*, hop: str, seconds: float, context: dict[str, Any] | None = None, **_: Any) -> None:
    """Called by Airflow's executor. Its event and metric are what notifiers and log alarms listen to."""
    run = (context or {}).get("dag_run", {})
    run_id = run.get("dag_run_id", run.get("run_id", "")) if isinstance(run, dict) else getattr(run, "run_id", "")
    emit("target_missed", hop=hop, after_seconds=seconds, run=run_id, runbook="docs/runbooks/late-hop.md")
    stats.incr("relaybox.target_missed", tags={"hop": hop})
