"""The list of the kinds of DAGs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from airflow.sdk import get_parsing_context

from relaybox.airflow.dags.alerts import Alerts, add_alerts
from relaybox.routes import Routes

if TYPE_CHECKING:
    from airflow.sdk import DAG


class Kind(NamedTuple):
    """DAGs whose ids begin with `prefix`, and the function of relaybox.airflow.dags that builds them."""

    prefix: str
    module: str
    builder: str

    def build(self, *arguments: object) -> dict[str, DAG]:
        """Imports the module, with the operators of this kind and what they need."""
        module = import_module(f"relaybox.airflow.dags.{self.module}")
        built: dict[str, DAG] = getattr(module, self.builder)(*arguments)
        return built


KINDS = (
    Kind("relaybox_transfer__", "transfer", "build_transfer_dags"),
    Kind("relaybox_derive__", "derive", "build_derive_dags"),
    Kind("relaybox_promote__", "promote", "build_promote_dags"),
    Kind("relaybox_export__", "export", "build_export_dags"),
    Kind("relaybox_webhook__", "sink", "build_webhook_dags"),
    Kind("relaybox_kafka__", "sink", "build_kafka_dags"),
    Kind("relaybox_confirm__", "confirm", "build_confirm_dags"),
    Kind("relaybox_replay__", "replay", "build_replay_dags"),
    Kind("relaybox_redrive__", "actions", "build_redrive_dags"),
    Kind("relaybox_skip__", "actions", "build_skip_dags"),
    Kind("relaybox_verify", "verify", "build_verify_dag"),
    Kind("relaybox_retention", "retention", "build_retention_dag"),
    Kind("relaybox_init", "init", "build_init_dag"),
)
WATCH = Kind("relaybox_watch", "watch", "build_watch_dag")


def build_every_dag(routes: Routes, alerts: Alerts) -> dict[str, DAG]:
    """The DAGs of these routes, by id, with the alerts of the team.

    A task asks for its own DAG only: of the other kinds not even the modules are imported, which a first message would wait for.
    """
    dags = {dag_id: dag for kind in KINDS if _wanted(kind) for dag_id, dag in kind.build(routes).items()}
    if _wanted(WATCH):
        dags |= WATCH.build(routes, alerts)
    add_alerts(dags, routes, alerts)
    return dags


def _wanted(kind: Kind) -> bool:
    dag_id = get_parsing_context().dag_id
    return dag_id is None or dag_id.startswith(kind.prefix)
