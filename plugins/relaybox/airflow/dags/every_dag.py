"""The list of the kinds of DAGs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from relaybox.airflow.dags.actions import build_redrive_dags, build_skip_dags
from relaybox.airflow.dags.alerts import Alerts, add_alerts
from relaybox.airflow.dags.confirm import build_confirm_dags
from relaybox.airflow.dags.derive import build_derive_dags
from relaybox.airflow.dags.export import build_export_dags
from relaybox.airflow.dags.init import build_init_dag
from relaybox.airflow.dags.promote import build_promote_dags
from relaybox.airflow.dags.replay import build_replay_dags
from relaybox.airflow.dags.retention import build_retention_dag
from relaybox.airflow.dags.transfer import build_transfer_dags
from relaybox.airflow.dags.verify import build_verify_dag
from relaybox.airflow.dags.watch import build_watch_dag
from relaybox.routes import Routes

if TYPE_CHECKING:
    from airflow.sdk import DAG

_KINDS: tuple[Callable[[Routes], dict[str, DAG]], ...] = (
    build_transfer_dags,
    build_derive_dags,
    build_promote_dags,
    build_export_dags,
    build_confirm_dags,
    build_replay_dags,
    build_redrive_dags,
    build_skip_dags,
    build_verify_dag,
    build_retention_dag,
    build_init_dag,
)


def build_every_dag(routes: Routes, alerts: Alerts) -> dict[str, DAG]:
    """The DAGs of these routes, by id, with the alerts of the team."""
    dags = {dag_id: dag for build in _KINDS for dag_id, dag in build(routes).items()} | build_watch_dag(routes, alerts)
    add_alerts(dags, routes, alerts)
    return dags
