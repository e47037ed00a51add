"""Two DAGs per route for actions that need an approval: redrive dead letters, and skip missing messages."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from relaybox.airflow.approvals import approval
from relaybox.airflow.dags.docs import redrive_doc, skip_doc
from relaybox.airflow.dags.factory import SHORT_TASK, build_route_dags, route_dag_options
from relaybox.airflow.forms import (
    REASON,
    STORE,
    SUBSCRIPTION,
    reason_param,
    store_param,
    subscription_param,
    text_param,
)
from relaybox.airflow.naming import REDRIVE_TASK_ID, SHOW_TASK_ID, SKIP_TASK_ID, redrive_dag_id, skip_dag_id
from relaybox.airflow.operators.redrive import DEAD_LETTER_ID, DeadLettersOperator, RedriveOperator
from relaybox.airflow.operators.skip import SENDER, THROUGH, GapOperator, SkipOperator
from relaybox.routes import Route, Routes


def build_redrive_dags(routes: Routes) -> dict[str, DAG]:
    """The redrive DAGs of all routes, by id. Reads no database."""
    return build_route_dags(routes, redrive_dag_id, _redrive_dag)


def build_skip_dags(routes: Routes) -> dict[str, DAG]:
    """The skip DAGs of all routes, by id. Reads no database."""
    return build_route_dags(routes, skip_dag_id, lambda route: _skip_dag(routes, route))


def _redrive_dag(route: Route) -> DAG:
    pool = route.path[-1].pool
    with DAG(
        redrive_dag_id(route),
        dag_display_name=f"{route.name} redrive",
        description=f"Redrives dead letters of route {route.name} after a person approved it",
        doc_md=redrive_doc(route),
        schedule=None,
        params={
            STORE: store_param(route, "The store of the dead letters."),
            SUBSCRIPTION: subscription_param(
                "The subscription whose consumers refused the messages. They get the messages again."
            ),
            DEAD_LETTER_ID: Param(
                None,
                type=["null", "integer"],
                minimum=1,
                title="Dead letter",
                description="The number of one dead letter. Empty: all that are open when the run begins.",
            ),
            REASON: reason_param(),
        },
        **route_dag_options(route, "redrive"),
    ) as dag:
        show = DeadLettersOperator(task_id=SHOW_TASK_ID, route=route, pool=pool, **SHORT_TASK)
        subject = f"Redrive dead letters of {{{{ params.{SUBSCRIPTION} }}}}: {{{{ params.{REASON} }}}}"
        approve = approval(subject, pool=pool)
        show >> approve >> RedriveOperator(task_id=REDRIVE_TASK_ID, route=route, pool=pool, **SHORT_TASK)
    return dag


def _skip_dag(routes: Routes, route: Route) -> DAG:
    pool = route.path[-1].pool
    with DAG(
        skip_dag_id(route),
        dag_display_name=f"{route.name} skip",
        description=f"Skips missing messages of route {route.name} after a person approved it",
        doc_md=skip_doc(route),
        schedule=None,
        params={
            SENDER: text_param(
                "Sender", "The sender whose messages are missing. See `relaybox holdback` or the page.", maxLength=48
            ),
            THROUGH: Param(
                None,
                type=["null", "integer"],
                minimum=1,
                title="Up to index",
                description="The last index to skip. Empty: the end of the sender's first gap.",
            ),
            REASON: reason_param(),
        },
        **route_dag_options(route, "skip"),
    ) as dag:
        show = GapOperator(task_id=SHOW_TASK_ID, routes=routes, route=route, pool=pool, **SHORT_TASK)
        subject = f"Skip the missing messages of {{{{ params.{SENDER} }}}}: {{{{ params.{REASON} }}}}"
        approve = approval(subject, pool=pool)
        show >> approve >> SkipOperator(task_id=SKIP_TASK_ID, route=route, pool=pool, **SHORT_TASK)
    return dag
