"""Two DAGs of a DAG author: one sends messages, one is started by waiting messages and handles them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task
from sqlalchemy import Connection, text

from relaybox.airflow.assets import waiting_asset
from relaybox.airflow.operators.put import RelayboxPutOperator
from relaybox.consumer import Message

with DAG("send_flights", schedule="@hourly", catchup=False):

    @task
    def read_flights() -> list[dict[str, Any]]:
        return [{"flight": "UA1", "delay": 7}, {"flight": "DL2", "delay": 0}]

    RelayboxPutOperator(
        task_id="send",
        relaybox_conn_id="airline_app",  # its login has relaybox_producer
        topic="flights",
        sender="schedule",
        rows=read_flights(),
        key_field="flight",
    )

with DAG("bill_flights", schedule=waiting_asset("billing_app", "billing"), catchup=False, max_active_runs=1):

    @task.relaybox_consume(
        relaybox_conn_id="billing_app",  # its login has relaybox_consumer, and may insert into invoice
        subscription="billing",
        retries=3,
    )
    def bill(connection: Connection, message: Message) -> None:
        connection.execute(
            text("insert into public.invoice (message_id, content) values (:id, :content)"),
            {"id": message.message_id, "content": message.payload},
        )

    bill()
