"""The DAGs of an author, for tests of what Airflow does to their tasks: one sends three messages, one handles those that wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task
from sqlalchemy import text

from relaybox.airflow.operators.put import RelayboxPutOperator

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from relaybox.consumer import Message

RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=1)}

with DAG("author_put", schedule=None, default_args=RETRIES, is_paused_upon_creation=False):
    RelayboxPutOperator(
        task_id="put",
        relaybox_conn_id="relaybox_airline",
        topic="flights",
        sender="author",
        rows="{{ [run_id ~ '/1', run_id ~ '/2', run_id ~ '/3'] | tojson }}",
    )

with DAG("author_consume", schedule=None, default_args=RETRIES, is_paused_upon_creation=False):

    @task.relaybox_consume(relaybox_conn_id="relaybox_hub", subscription="author")
    def consume(connection: Connection, message: Message) -> None:
        """Takes half a second for each message while the table public.slow has a row."""
        connection.execute(
            text("insert into public.effect (stream_position) values (:position)"), {"position": message.stream_position}
        )
        connection.execute(text("select pg_sleep(0.5) from public.slow"))

    consume()
