"""Ids of DAGs and tasks: constants of a hop's name, never changed, since Airflow keeps history under them; and names of runs."""

from __future__ import annotations

from typing import Protocol

from relaybox.routes import Export, Hop, PayloadPlace, Route, Sink, Store

TRANSFER_TASK_ID = "transfer"
DERIVE_TASK_ID = "derive"
EXPORT_TASK_ID = "export"
SINK_TASK_ID = "deliver"
SETTLE_TASK_ID = "settle"
WATCH_DAG_ID = "relaybox_watch"
KEEP_ROUTES_TASK_ID = "keep_routes"
VERIFY_DAG_ID = "relaybox_verify"
INIT_DAG_ID = "relaybox_init"
RETENTION_DAG_ID = "relaybox_retention"
REPORT_TASK_ID = "report"
COUNT_TASK_ID = "count"
REPLAY_TASK_ID = "replay"
SHOW_TASK_ID = "show"
APPROVE_TASK_ID = "approve"
REDRIVE_TASK_ID = "redrive"
SKIP_TASK_ID = "skip"
INIT_TASK_ID = "init"
TRY_TASK_ID = "try"
PROMOTE_TASK_ID = "promote"
DROP_REJECTED_TASK_ID = "drop_rejected"

RUN_NAME_TEMPLATE = "{{ dag.dag_id }} {{ run_id }}"
"""What run_name() gives, for Airflow to fill in."""


class RunLike(Protocol):
    """A run, a task instance of it, or the key of one."""

    @property
    def dag_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...


def run_name(run: RunLike) -> str:
    """How the ledgers name a run that did something; the page makes a link of it (page/addresses.py)."""
    return f"{run.dag_id} {run.run_id}"


def transfer_dag_id(hop: Hop) -> str:
    return transfer_dag_id_of(hop.name)


def transfer_dag_id_of(hop: str) -> str:
    """Of a hop's name, also where no route has it any more."""
    route, _, number = hop.rpartition("/")
    return f"relaybox_transfer__{route}_{number}"


def confirm_dag_id(hop: Hop) -> str:
    return f"relaybox_confirm__{hop.route}_{hop.number}"


def replay_dag_id(route: Route) -> str:
    return f"relaybox_replay__{route.name}"


def redrive_dag_id(route: Route) -> str:
    return f"relaybox_redrive__{route.name}"


def skip_dag_id(route: Route) -> str:
    return f"relaybox_skip__{route.name}"


def derive_dag_id(route: Route) -> str:
    return f"relaybox_derive__{route.name}"


def promote_dag_id(route: Route) -> str:
    return f"relaybox_promote__{route.name}"


def export_dag_id(export: Export) -> str:
    return f"relaybox_export__{export.name}"


def sink_dag_id(sink: Sink) -> str:
    if sink.kind == "webhook":
        return f"relaybox_webhook__{sink.name}"
    return f"relaybox_kafka__{sink.name}"


def retain_task_id(store: Store) -> str:
    return f"retain_{store.name}"


def detach_task_id(store: Store) -> str:
    return f"detach_{store.name}"


def collect_payloads_task_id(place: PayloadPlace) -> str:
    return f"collect_payloads_{place.name}"


def look_task_id(store: Store) -> str:
    return f"look_at_{store.name}"


def transfer_title(hop: Hop) -> str:
    return f"{hop.name} {hop.source.name} → {hop.destination.name}"


def confirm_title(hop: Hop) -> str:
    """A confirmation goes against the messages: from the destination back to the source."""
    return f"{hop.name} {hop.source.name} ← {hop.destination.name} confirm"
