"""Ids of DAGs and tasks: constants of a hop's name, never changed, since Airflow keeps history under them."""

from __future__ import annotations

from relaybox.routes import Hop, Store

TRANSFER_TASK_ID = "transfer"
SETTLE_TASK_ID = "settle"
WATCH_DAG_ID = "relaybox_watch"
VERIFY_DAG_ID = "relaybox_verify"
REPORT_TASK_ID = "report"


def transfer_dag_id(hop: Hop) -> str:
    return f"relaybox_transfer__{hop.route}_{hop.number}"


def confirm_dag_id(hop: Hop) -> str:
    return f"relaybox_confirm__{hop.route}_{hop.number}"


def look_task_id(store: Store) -> str:
    return f"look_at_{store.name}"


def transfer_title(hop: Hop) -> str:
    return f"{hop.name} {hop.source.name} → {hop.destination.name}"


def confirm_title(hop: Hop) -> str:
    """A confirmation goes against the messages: from the destination back to the source."""
    return f"{hop.name} {hop.source.name} ← {hop.destination.name} confirm"
