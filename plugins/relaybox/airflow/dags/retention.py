"""One DAG that drops, each day and in every store, the segments that no hop and no subscription needs.

It also detaches the segments that only stopped consumers need, and then collects large payloads.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, BaseOperator, Param

from relaybox.airflow.dags.docs import retention_doc
from relaybox.airflow.dags.factory import by_clock, wanted
from relaybox.airflow.naming import RETENTION_DAG_ID, collect_payloads_task_id, detach_task_id, retain_task_id
from relaybox.airflow.operators.detach import DetachOperator
from relaybox.airflow.operators.payloads import CollectPayloadsOperator
from relaybox.airflow.operators.retention import EVERY_STORE, RetentionOperator
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.routes import Routes

RETENTION_CRON = "30 4 * * *"
"""After the daily verification: what it compared is still there."""


def build_retention_dag(routes: Routes) -> dict[str, DAG]:
    """The retention DAG by its id. Reads no database."""
    return {RETENTION_DAG_ID: _retention_dag(routes)} if wanted(RETENTION_DAG_ID) else {}


def _retention_dag(routes: Routes) -> DAG:
    stores = tuple(routes.stores.values())
    time_limits = _time_limits_of_detaching(routes)
    with DAG(
        RETENTION_DAG_ID,
        dag_display_name="retention in all stores",
        description="Drops whole segments of outboxes and logs that no hop, subscription, dead letter or replay window needs",
        doc_md=retention_doc(stores),
        schedule=by_clock(RETENTION_CRON),
        catchup=False,
        max_active_runs=1,
        tags=["relaybox", "retention"],
        params={
            "store": Param(
                EVERY_STORE,
                type="string",
                enum=[EVERY_STORE, *(store.name for store in stores)],
                title="Store",
                description="The store to clean; the daily run cleans all.",
            ),
            "dry_run": Param(
                default=False,
                type="boolean",
                title="Dry run",
                description="Only list kept segments, their readers, and droppable segments.",
            ),
        },
        default_args={"owner": "relaybox", "retries": 2, "retry_delay": timedelta(minutes=1)},
    ) as dag:
        last_tasks: list[BaseOperator] = []
        for store in stores:
            retain: BaseOperator = RetentionOperator(task_id=retain_task_id(store), store=store, routes=routes, pool=store.pool)
            last_tasks.append(retain)
            if store.name in time_limits:
                last_tasks[-1] = DetachOperator(
                    task_id=detach_task_id(store),
                    store=store,
                    routes=routes,
                    routes_text=routes.text,
                    spark=routes.detaching_spark(store),
                    pool=store.pool,
                    retry_policy=DriverExitPolicy(),
                    execution_timeout=time_limits[store.name],
                )
                retain >> last_tasks[-1]
        for place in routes.payloads.values():
            last_tasks >> CollectPayloadsOperator(
                task_id=collect_payloads_task_id(place),
                place=place,
                stores=tuple(routes.stores.values()),
                trigger_rule="none_failed",  # a store that has nothing to detach skips
            )
    return dag


def _time_limits_of_detaching(routes: Routes) -> dict[str, timedelta]:
    """The time limit of an attempt per store with logs to detach: the longest of their routes."""
    limits: dict[str, timedelta] = {}
    for hop in routes.hops:
        if hop.log_retention.stopped_consumer == "detach":
            limit = timedelta(seconds=hop.limits.run_timeout_seconds)
            limits[hop.destination.name] = max(limit, limits.get(hop.destination.name, limit))
    return limits
