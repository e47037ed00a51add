"""The task with which a DAG author sends messages: once per task instance, whatever is retried or cleared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from relaybox.airflow.author_tasks import connection_as_service, task_instance_key
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.amounts import amount
from relaybox.failpoints import reach
from relaybox.log_events import emit
from relaybox.outbox import Draft, put_once
from relaybox.stores.sessions.connections import store_errors
from relaybox.stores.sessions.producer_sessions import open_producer_session

if TYPE_CHECKING:
    from airflow.sdk import Context

Payload = str | bytes | Mapping[str, Any] | list[Any]


class RelayboxPutOperator(BaseOperator):
    """Puts rows into the outbox of a store: all in one transaction, and once per task instance.

    A retry, a clear and a killed worker send nothing twice: the store keeps which task instance has sent (relaybox.record_put), for
    as long as it exists. Other rows under the same key fail the task (`PutChanged`), and send nothing.

    Args:
        relaybox_conn_id: Airflow connection of the store; its login has relaybox_producer. Templated.
        topic: by which routes choose the messages. Templated.
        sender: who says it; each sender has its own keys. Templated.
        rows: one payload per message: text, bytes, or a mapping or list that is sent as JSON. A list; the XCom of another task, of
            which nothing is rendered; or a template whose result is a JSON list.
        key_field: the member of each row, which is a mapping, that is the key of its message.
        headers: of every message. Templated.
        put_key: what identifies the put. By default dag id, task id, map index and run id. Templated.
        numbered: the sender is declared gapless: messages get the next indexes of its counter.
    """

    template_fields: Sequence[str] = ("relaybox_conn_id", "topic", "sender", "rows", "headers", "put_key")
    template_fields_renderers = {"rows": "json", "headers": "json"}  # noqa: RUF012  the base class says so
    ui_color = "#e8f3ec"

    def __init__(
        self,
        *,
        relaybox_conn_id: str,
        topic: str,
        sender: str,
        rows: Iterable[Payload] | str,
        key_field: str | None = None,
        headers: Mapping[str, Any] | None = None,
        put_key: str | None = None,
        numbered: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.relaybox_conn_id = relaybox_conn_id
        self.topic = topic
        self.sender = sender
        self.rows = rows
        self.key_field = key_field
        self.headers = headers
        self.put_key = put_key
        self.numbered = numbered
        self._is_told_to_end = False

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the number of messages, the key of the put, and whether this attempt sent them.

        Raises:
            AirflowFailException: an error that no retry repairs. Nothing was sent.
            AirflowException: the task was told to end before its COMMIT. This attempt sent nothing; a retry sends.
        """
        put_key = self.put_key or task_instance_key(context["ti"])
        drafts = [self._draft(number, row) for number, row in enumerate(_listed(self.rows))]
        with terminal_errors_fail_at_once():
            is_sent_now = self._put(put_key, drafts)
        emit("messages_put", sender=self.sender, put_key=put_key, messages=len(drafts), sent_now=is_sent_now)
        return {"message_count": len(drafts), "put_key": put_key, "sent_now": is_sent_now}

    def _put(self, put_key: str, drafts: Sequence[Draft]) -> bool:
        with connection_as_service(self.relaybox_conn_id) as store:
            opened = open_producer_session(store)
        with (
            closing(opened) as session,
            store_errors(store, f"putting {amount(len(drafts), 'message')} of sender {self.sender} into topic {self.topic}"),
            session.cursor() as cursor,
        ):
            reach("put.begin", None)
            is_sent_now = put_once(cursor, self.sender, put_key, drafts, numbered=self.numbered)
            reach("put.committing", None)
            self._require_not_told_to_end(put_key)
            session.commit()
            reach("put.committed", None)
        return is_sent_now

    def on_kill(self) -> None:
        """Takes the put back, unless its COMMIT was sent: who marks or clears a task that has not sent expects that it does not."""
        self._is_told_to_end = True

    def _require_not_told_to_end(self, put_key: str) -> None:
        if self._is_told_to_end:
            raise AirflowException(
                f"sender {self.sender}, put_key {put_key}: the task was told to end before its COMMIT. This attempt sent nothing. "
                "Clear the task to send."
            )

    def _draft(self, number: int, row: Payload) -> Draft:
        key = None
        if self.key_field is not None:
            if not isinstance(row, Mapping) or row.get(self.key_field) is None:
                raise AirflowFailException(
                    f"rows[{number}] has no member {self.key_field}, which key_field names. Nothing was sent."
                )
            key = str(row[self.key_field])
        if not isinstance(row, str | bytes | Mapping | list):
            raise AirflowFailException(
                f"rows[{number}] is of type {type(row).__name__}: give text, bytes, a mapping or a list. Nothing was sent."
            )
        return Draft(self.topic, row, key=key, headers=self.headers)


def _listed(rows: Iterable[Payload] | str) -> list[Payload]:
    """The rows; a text is what a template gave."""
    if isinstance(rows, str):
        try:
            rows = json.loads(rows)
        except ValueError as error:
            raise AirflowFailException(
                f"rows is a text that is not JSON: {error}. In a template write {{{{ ... | tojson }}}}. Nothing was sent."
            ) from error
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise AirflowFailException(f"rows is of type {type(rows).__name__}: give a list of payloads. Nothing was sent.")
    return list(rows)
