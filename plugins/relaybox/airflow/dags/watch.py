"""One DAG for all hops that triggers on a schedule what no event triggered: dead triggerer, dropped event.

Hundreds of hops cost one task per store and look. A DAG of each hop with a clock of its own would cost hundreds of tasks that
find nothing to do.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAlias, CronTriggerTimetable

from relaybox.airflow.assets import late_asset, settling_asset, trigger_alias, work_asset
from relaybox.airflow.dags.alerts import NO_ALERTS, Alerts
from relaybox.airflow.dags.docs import watch_doc
from relaybox.airflow.dags.factory import LOOK_CRON, SHORT_TASK, wanted
from relaybox.airflow.links import hop_page
from relaybox.airflow.naming import KEEP_ROUTES_TASK_ID, WATCH_DAG_ID, look_task_id
from relaybox.airflow.operators.keep_routes import KeepRoutesOperator
from relaybox.airflow.operators.look import StoreLookOperator, WatchedHop
from relaybox.routes import Routes, Store


def build_watch_dag(routes: Routes, alerts: Alerts = NO_ALERTS) -> dict[str, DAG]:
    """The watch DAG by its id. Reads no database."""
    return {WATCH_DAG_ID: _watch_dag(routes, alerts)} if wanted(WATCH_DAG_ID) else {}


def _watch_dag(routes: Routes, alerts: Alerts) -> DAG:
    sources = {hop.source: None for hop in routes.hops}
    with DAG(
        WATCH_DAG_ID,
        dag_display_name="watch all hops",
        description="Triggers on a schedule what no event triggered",
        doc_md=watch_doc(routes),
        schedule=CronTriggerTimetable(
            LOOK_CRON, timezone="UTC", run_immediately=True
        ),  # what waits in a new deployment is triggered
        catchup=False,
        max_active_runs=1,
        tags=["relaybox", "watch"],
        default_args={"owner": "relaybox", "retries": 1, "retry_delay": timedelta(seconds=10)},
    ) as dag:
        KeepRoutesOperator(task_id=KEEP_ROUTES_TASK_ID, **SHORT_TASK)
        for store in sources:
            alias = AssetAlias(trigger_alias(store))
            StoreLookOperator(
                task_id=look_task_id(store),
                store=store,
                hops=_watched(routes, store),
                alias=alias,
                on_late_callback=alerts.on_late_callback,
                outlets=[alias],
                pool=store.pool,
                **SHORT_TASK,
            )
    return dag


def _watched(routes: Routes, store: Store) -> tuple[WatchedHop, ...]:
    return tuple(
        WatchedHop(
            hop.name,
            reads=work_asset(hop),
            settles=settling_asset(routes, hop),
            late=late_asset(hop),
            target_lag_seconds=hop.limits.target_lag_seconds,
            page=hop_page(hop),
            carries_topics=hop if hop.topics_by_subscription else None,
            reads_outbox=hop if hop.upstream is None else None,
        )
        for hop in routes.hops
        if hop.source == store
    )
