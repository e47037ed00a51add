"""One DAG that runs `relaybox init` with the logins of the owners, after a person approved what it would change."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from relaybox.airflow.approvals import approval
from relaybox.airflow.dags.docs import init_doc
from relaybox.airflow.dags.factory import SHORT_TASK, wanted
from relaybox.airflow.forms import STORE
from relaybox.airflow.naming import INIT_DAG_ID, INIT_TASK_ID, SHOW_TASK_ID
from relaybox.airflow.operators.init import EVERY_STORE, InitOperator, InitPlanOperator
from relaybox.routes import Routes


def build_init_dag(routes: Routes) -> dict[str, DAG]:
    """The init DAG by its id. Reads no database."""
    return {INIT_DAG_ID: _init_dag(routes)} if wanted(INIT_DAG_ID) else {}


def _init_dag(routes: Routes) -> DAG:
    stores = list(routes.stores.values())
    pool = stores[0].pool
    with DAG(
        INIT_DAG_ID,
        dag_display_name="init of stores",
        description="Creates or upgrades the schema of stores after a person approved what would change",
        doc_md=init_doc(stores),
        schedule=None,
        catchup=False,
        tags=["relaybox", "init"],
        params={
            STORE: Param(
                EVERY_STORE,
                type="string",
                enum=[EVERY_STORE, *(store.name for store in stores)],
                title="Store",
                description="The store to create or upgrade. A stream that changes its rules needs all of its stores.",
            )
        },
        default_args={"owner": "relaybox", "retries": 2, "retry_delay": timedelta(seconds=30)},
    ) as dag:
        show = InitPlanOperator(task_id=SHOW_TASK_ID, routes=routes, pool=pool, **SHORT_TASK)
        approve = approval(f"Init of {{{{ params.{STORE} }}}}", pool=pool)
        show >> approve >> InitOperator(task_id=INIT_TASK_ID, routes=routes, pool=pool, **SHORT_TASK)
    return dag
