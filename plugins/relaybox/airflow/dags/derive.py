"""One DAG per route whose messages are derived."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from relaybox.airflow.assets import derive_assets
from relaybox.airflow.dags.docs import derive_doc
from relaybox.airflow.dags.factory import by_stream, route_dag_options, wanted
from relaybox.airflow.naming import DERIVE_TASK_ID, derive_dag_id
from relaybox.airflow.operators.derive import DeriveOperator
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.routes import Route, Routes


def build_derive_dags(routes: Routes) -> dict[str, DAG]:
    """The DAGs of derived routes, by id. Reads no database."""
    derived = [route for route in routes.routes.values() if route.derivation is not None]
    return {derive_dag_id(route): _derive_dag(routes, route) for route in derived if wanted(derive_dag_id(route))}


def _derive_dag(routes: Routes, route: Route) -> DAG:
    with DAG(
        derive_dag_id(route),
        dag_display_name=f"{route.name} derive",
        description=f"Derives the messages of route {route.name} from those of stream {route.require_derivation().stream}",
        doc_md=derive_doc(route),
        schedule=by_stream(route.path[0], derive_assets(routes, route)),
        max_active_runs=1,
        **route_dag_options(route, "derive"),
    ) as dag:
        DeriveOperator(
            task_id=DERIVE_TASK_ID,
            route=route,
            routes_text=routes.text,
            pool=route.path[0].pool,
            retry_policy=DriverExitPolicy(),
            execution_timeout=timedelta(seconds=route.limits.run_timeout_seconds),
        )
    return dag
