"""One DAG per hop that carries confirmations back to its source.

A wave of confirmations starts at the end of a route, when the last log grew, and goes hop by hop to the origin.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, AssetAny

from relaybox.airflow.assets import log_asset, settled_asset, settling_asset, work_asset
from relaybox.airflow.dags.docs import confirm_doc
from relaybox.airflow.dags.factory import SHORT_TASK, build_hop_dags, dag_options
from relaybox.airflow.naming import SETTLE_TASK_ID, confirm_dag_id, confirm_title
from relaybox.airflow.operators.settle import HopSettleOperator
from relaybox.routes import Hop, Route, Routes


def build_confirm_dags(routes: Routes) -> dict[str, DAG]:
    """The confirm DAGs of all hops, by id. Reads no database."""
    return build_hop_dags(routes, confirm_dag_id, lambda route, hop: _confirm_dag(routes, route, hop))


def _confirm_dag(routes: Routes, route: Route, hop: Hop) -> DAG:
    with DAG(
        confirm_dag_id(hop),
        dag_display_name=confirm_title(hop),
        description=f"Carries the confirmations of hop {hop.name} back to {hop.source.name}",
        doc_md=confirm_doc(route, hop),
        schedule=_schedule(routes, hop),
        **dag_options(hop, "confirm"),
    ) as dag:
        HopSettleOperator(
            task_id=SETTLE_TASK_ID, route=route, hop=hop, outlets=[settled_asset(hop)], pool=hop.source.pool, **SHORT_TASK
        )
    return dag


def _schedule(routes: Routes, hop: Hop) -> Any:
    """With policy `received` a hop settles by its own log; what is confirmed further down still passes through it.

    Its log grew if there is work for the next hop, also where the task that filled it was killed.
    """
    starts = settling_asset(routes, hop)
    if hop.policy == "received" and hop.downstream is not None:
        return AssetAny(starts, log_asset(hop), work_asset(routes.hop(hop.downstream)))
    return [starts]
