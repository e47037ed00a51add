"""One DAG that verifies delivery of every route daily, and writes a report."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, TaskGroup

from relaybox.airflow.assets import verification_asset
from relaybox.airflow.dags.docs import verify_doc
from relaybox.airflow.dags.factory import by_clock, wanted
from relaybox.airflow.naming import REPORT_TASK_ID, VERIFY_DAG_ID
from relaybox.airflow.operators.verify import EVERY_ROUTE, RouteVerifyOperator, VerificationReportOperator
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.routes import Routes

VERIFY_CRON = "0 4 * * *"
VERIFICATIONS_GROUP_ID = "verification"


def build_verify_dag(routes: Routes) -> dict[str, DAG]:
    """The verify DAG by its id. Reads no database."""
    return {VERIFY_DAG_ID: _verify_dag(routes)} if wanted(VERIFY_DAG_ID) else {}


def _verify_dag(routes: Routes) -> DAG:
    names = list(routes.routes)
    with (
        DAG(
            VERIFY_DAG_ID,
            dag_display_name="verify all routes",
            description="Compares the stores of each route message by message; reports missing, doubled and changed messages",
            doc_md=verify_doc(routes),
            schedule=by_clock(VERIFY_CRON),
            catchup=False,
            max_active_runs=1,
            max_active_tasks=1,  # a verification reads whole logs: one after the other, so that live messages keep their share of the disks
            tags=["relaybox", "verify"],
            params={
                "route": Param(
                    EVERY_ROUTE,
                    type="string",
                    enum=[EVERY_ROUTE, *names],
                    title="Route",
                    description="The route to verify; the daily run verifies all.",
                )
            },
            default_args={"owner": "relaybox", "retries": 2, "retry_delay": timedelta(minutes=1)},
        ) as dag
    ):
        with TaskGroup(VERIFICATIONS_GROUP_ID, tooltip="One verification of delivery per route"):
            verifications = [
                RouteVerifyOperator(
                    task_id=name,
                    route=route,
                    routes_text=routes.text,
                    outlets=[verification_asset(name)],
                    owner=route.owner,
                    pool=route.path[-1].pool,
                    retry_policy=DriverExitPolicy(),
                    execution_timeout=timedelta(seconds=route.limits.run_timeout_seconds),
                )
                for name, route in routes.routes.items()
            ]
        report = VerificationReportOperator(
            task_id=REPORT_TASK_ID,
            verification_task_ids=[verification.task_id for verification in verifications],
            trigger_rule="all_done",
            retries=0,
        )
        verifications >> report
    return dag
