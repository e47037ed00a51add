"""One DAG per route whose derivation has a next version: try it, show what differs, and promote it or drop it, as a person says."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, TriggerRule

from relaybox.airflow.approvals import approval
from relaybox.airflow.dags.docs import promote_doc
from relaybox.airflow.dags.factory import SHORT_TASK, route_dag_options, wanted
from relaybox.airflow.forms import REASON, reason_param, text_param
from relaybox.airflow.naming import DROP_REJECTED_TASK_ID, PROMOTE_TASK_ID, SHOW_TASK_ID, TRY_TASK_ID, promote_dag_id
from relaybox.airflow.operators.trial import (
    REPUBLISH,
    START,
    THROUGH,
    CompareOperator,
    DropRejectedOperator,
    PromoteOperator,
    TryOperator,
)
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.routes import Route, Routes


def build_promote_dags(routes: Routes) -> dict[str, DAG]:
    """The DAGs of routes with a key derive.next, by id. Reads no database."""
    tried = [route for route in routes.routes.values() if route.derivation is not None and route.derivation.next is not None]
    return {promote_dag_id(route): _promote_dag(routes, route) for route in tried if wanted(promote_dag_id(route))}


def _promote_dag(routes: Routes, route: Route) -> DAG:
    pool, version = route.path[0].pool, route.require_next().version
    with DAG(
        promote_dag_id(route),
        dag_display_name=f"{route.name} promote",
        description=f"Tries version {version} of what route {route.name} derives, and promotes it after a person approved it",
        doc_md=promote_doc(route),
        schedule=None,
        max_active_runs=1,
        params={
            START: text_param(
                "From", "earliest, a stream position such as 1200, or a time of delivery. Empty: the first message that is kept."
            ),
            THROUGH: text_param(
                "To",
                "A stream position (included) or a time (excluded). Empty: the last message that the present version has done.",
            ),
            REPUBLISH: Param(
                False,  # noqa: FBT003  the form's value
                type="boolean",
                title="Send the range again",
                description="The new version begins at the first message of the range. Else after what the present version has done.",
            ),
            REASON: reason_param(),
        },
        **route_dag_options(route, "promote"),
    ) as dag:
        attempt = TryOperator(
            task_id=TRY_TASK_ID,
            route=route,
            routes_text=routes.text,
            pool=pool,
            retry_policy=DriverExitPolicy(),
            execution_timeout=timedelta(seconds=route.limits.run_timeout_seconds),
        )
        show = CompareOperator(task_id=SHOW_TASK_ID, route=route, pool=pool, **SHORT_TASK)
        approve = approval(f"Promote version {version} of route {route.name}: {{{{ params.{REASON} }}}}", pool=pool)
        promote = PromoteOperator(task_id=PROMOTE_TASK_ID, route=route, pool=pool, **SHORT_TASK)
        # after promote, and not beside it: a rejection skips all that is right after the approval
        drop = DropRejectedOperator(
            task_id=DROP_REJECTED_TASK_ID, route=route, pool=pool, trigger_rule=TriggerRule.NONE_FAILED, **SHORT_TASK
        )
        attempt >> show >> approve >> promote >> drop
    return dag
