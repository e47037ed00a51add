"""One DAG per hop that moves its messages."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from relaybox.airflow.assets import log_asset, start_assets
from relaybox.airflow.dags.docs import transfer_doc
from relaybox.airflow.dags.factory import build_hop_dags, dag_options
from relaybox.airflow.naming import TRANSFER_TASK_ID, transfer_dag_id, transfer_title
from relaybox.airflow.operators.transfer import HopTransferOperator
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.airflow.transfer_params import transfer_params
from relaybox.routes import Hop, Route, Routes


def build_transfer_dags(routes: Routes) -> dict[str, DAG]:
    """The transfer DAGs of all hops, by id. Reads no database."""
    return build_hop_dags(routes, transfer_dag_id, lambda route, hop: _transfer_dag(routes, route, hop))


def _transfer_dag(routes: Routes, route: Route, hop: Hop) -> DAG:
    with DAG(
        transfer_dag_id(hop),
        dag_display_name=transfer_title(hop),
        description=f"Moves the messages of hop {hop.name}",
        doc_md=transfer_doc(route, hop),
        schedule=start_assets(routes, hop),
        params=transfer_params(hop),
        **dag_options(hop, "transfer"),
    ) as dag:
        HopTransferOperator(
            task_id=TRANSFER_TASK_ID,
            hop=hop,
            routes_text=routes.text,
            outlets=[log_asset(hop)],
            pool=hop.destination.pool,
            retry_policy=DriverExitPolicy(),
            execution_timeout=timedelta(seconds=hop.limits.run_timeout_seconds),
        )
    return dag
