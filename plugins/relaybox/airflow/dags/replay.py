"""One DAG per route that reads messages again: by its form, or by a backfill of Airflow."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, BaseOperator, Param

from relaybox.airflow.approvals import approval
from relaybox.airflow.dags.docs import replay_doc
from relaybox.airflow.dags.factory import SHORT_TASK, build_route_dags, route_dag_options
from relaybox.airflow.dags.replay_timetable import REPLAY_CRON, ReplayTimetable
from relaybox.airflow.forms import (
    REASON,
    STORE,
    SUBSCRIPTION,
    SUBSCRIPTION_PATTERN,
    asks_for_approval,
    reason_param,
    store_param,
    subscription_param,
    text_param,
)
from relaybox.airflow.naming import COUNT_TASK_ID, REPLAY_TASK_ID, replay_dag_id
from relaybox.airflow.operators.replay import (
    CURSOR,
    DRY_RUN,
    ROWS_PER_SECOND,
    START,
    THROUGH,
    ReplayApprovalOperator,
    ReplayCountOperator,
    ReplayOperator,
)
from relaybox.routes import Route, Routes

USUAL_ROWS_PER_SECOND = 500
PATIENCE = timedelta(days=1)
"""Time for the consumers of the second cursor. Then the attempt fails, and the next one continues."""


def build_replay_dags(routes: Routes) -> dict[str, DAG]:
    """The replay DAGs of all routes, by id. Reads no database."""
    return build_route_dags(routes, replay_dag_id, _replay_dag)


def _replay_dag(route: Route) -> DAG:
    with DAG(
        replay_dag_id(route),
        dag_display_name=f"{route.name} replay",
        description=f"Reads messages of route {route.name} again, by a second cursor of a subscription",
        doc_md=replay_doc(route),
        schedule=ReplayTimetable(REPLAY_CRON, timezone="UTC"),
        params=replay_params(route),
        **route_dag_options(route, "replay"),
    ) as dag:
        pool = route.path[-1].pool
        count = ReplayCountOperator(task_id=COUNT_TASK_ID, route=route, pool=pool, **SHORT_TASK)
        before: BaseOperator = count
        if asks_for_approval(route):
            subject = f"Replay messages to {{{{ params.{SUBSCRIPTION} }}}}: {{{{ params.{REASON} }}}}"
            before = approval(subject, pool=pool, shown_by=COUNT_TASK_ID, operator=ReplayApprovalOperator)
            count >> before
        # one range at a time, whatever a backfill's own limit says (Airflow counts deferred tasks too), and no slot of a store's pool
        before >> ReplayOperator(task_id=REPLAY_TASK_ID, route=route, max_active_tis_per_dag=1, execution_timeout=PATIENCE)
    return dag


def replay_params(route: Route) -> dict[str, Param]:
    """The params of the form and of a backfill."""
    return {
        STORE: store_param(route, "The store in which consumers read the messages again."),
        SUBSCRIPTION: subscription_param("The replay has its topic, lanes and limits. Its own cursor does not move."),
        START: text_param(
            "From",
            "earliest, a stream position such as 1200, or a time of delivery such as 2026-07-01 12:00+00. Leave empty for a backfill.",
        ),
        THROUGH: text_param(
            "To",
            "A stream position (included) or a time (excluded). Empty: the newest message. Leave empty for a backfill.",
        ),
        CURSOR: text_param(
            "Second cursor",
            "The subscription that consumers read the replay with; created if missing. Empty: the name of the subscription with .replay.",
            pattern=SUBSCRIPTION_PATTERN,
        ),
        ROWS_PER_SECOND: Param(
            USUAL_ROWS_PER_SECOND,
            type="integer",
            minimum=1,
            maximum=1_000_000,
            title="Messages per second",
            description="Limit for the consumers of the second cursor.",
        ),
        REASON: reason_param(),
        DRY_RUN: Param(
            False,  # noqa: FBT003  # the form's value
            type="boolean",
            title="Only count",
            description="Writes stream positions, messages, bytes and time into the log of the first task. Replays nothing.",
        ),
    }
