"""One DAG per webhook, and one per sink of Kafka."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk import DAG

from relaybox.airflow.assets import sink_assets
from relaybox.airflow.dags.docs import sink_doc
from relaybox.airflow.dags.factory import by_stream, retry_options, wanted
from relaybox.airflow.naming import SINK_TASK_ID, sink_dag_id
from relaybox.airflow.operators.sink import SinkOperator
from relaybox.routes import Routes, Sink


def build_webhook_dags(routes: Routes) -> dict[str, DAG]:
    """The DAGs of webhooks, by id. Reads no database."""
    return _build(routes, routes.webhooks.values())


def build_kafka_dags(routes: Routes) -> dict[str, DAG]:
    """The DAGs of sinks of Kafka, by id, likewise."""
    return _build(routes, routes.kafka.values())


def _build(routes: Routes, sinks: Iterable[Sink]) -> dict[str, DAG]:
    return {sink_dag_id(sink): _sink_dag(routes, sink) for sink in sinks if wanted(sink_dag_id(sink))}


def _sink_dag(routes: Routes, sink: Sink) -> DAG:
    with DAG(
        sink_dag_id(sink),
        dag_display_name=f"{sink.name} {sink.kind}",
        description=f"Delivers stream {sink.stream} of store {sink.store.name} to {sink.endpoint}",
        doc_md=sink_doc(sink),
        schedule=by_stream(sink.store, sink_assets(routes, sink)),
        catchup=False,
        max_active_runs=1,
        tags=["relaybox", sink.name, sink.kind],
        default_args={"owner": sink.owner, **retry_options(sink.retries)},
    ) as dag:
        SinkOperator(task_id=SINK_TASK_ID, sink=sink, pool=sink.store.pool)
    return dag
