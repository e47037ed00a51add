"""The task with which a DAG author handles the messages of a subscription: work and acknowledgement in one transaction."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from relaybox.airflow.author_tasks import connection_as_service, task_instance_key
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.amounts import amount
from relaybox.clients.steps import Steps
from relaybox.consumer import Consumer, Message
from relaybox.consumer.handlers import require_plain_handler
from relaybox.consumer.services import open_engine
from relaybox.consumer.stop_signals import stopped_after
from relaybox.log_events import emit

if TYPE_CHECKING:
    from airflow.sdk import Context
    from sqlalchemy import Connection

    Handler = Callable[[Connection, Message], None]

_KEY_CHARACTERS = 250
"""Of the 300 that a worker's name may have."""


class RelayboxConsumeOperator(BaseOperator):
    """Calls a handler for each message of a subscription, until none is there or a bound is reached.

    What the handler writes through the connection that it is given exists exactly once (G10), whatever is retried, cleared, marked or
    killed: it commits together with the acknowledgement. A message that was acknowledged never comes again, to a cleared task neither.
    An exception of the handler refuses its message: it comes again, and after the subscription's nack_limit it is a dead letter. The
    next message is handled all the same. Each acknowledgement renews the lease of the messages that were fetched with it.

    Args:
        relaybox_conn_id: Airflow connection of the store; its login has relaybox_consumer. Templated.
        subscription: its name; it must exist. Templated.
        handler: called as handler(connection, message), with a connection of SQLAlchemy. It ends no transaction of this connection.
            It is neither async nor a generator.
        max_messages: handler calls after which the task ends; None: no bound.
        max_seconds: the task ends after the message that it handles at this time.
        until_empty: end when a fetch gives nothing. False: wait for messages until a bound is reached.
        fetch_size: messages that are fetched, and leased, at once.
        commit_every: messages per transaction.
        lane: this lane only; by default any that is free.
        fail_on_dead_letter: fail the task, at its end and without a retry, if it made dead letters. The other messages are handled.
    """

    template_fields: Sequence[str] = ("relaybox_conn_id", "subscription")
    ui_color = "#e6eef7"

    def __init__(
        self,
        *,
        relaybox_conn_id: str,
        subscription: str,
        handler: Handler,
        max_messages: int | None = None,
        max_seconds: float = 600.0,
        until_empty: bool = True,
        fetch_size: int = 100,
        commit_every: int = 1,
        lane: int | None = None,
        fail_on_dead_letter: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_plain_handler(handler)
        if max_messages is not None and max_messages < 1:
            raise ValueError(f"max_messages is {max_messages}: give at least 1, or None for no bound")
        if max_seconds <= 0:
            raise ValueError(f"max_seconds is {max_seconds}: give a time above 0")
        self.relaybox_conn_id = relaybox_conn_id
        self.subscription = subscription
        self.handler = handler
        self.max_messages = max_messages
        self.max_seconds = max_seconds
        self.until_empty = until_empty
        self.fetch_size = fetch_size
        self.commit_every = commit_every
        self.lane = lane
        self.fail_on_dead_letter = fail_on_dead_letter
        self._consumer: _TaskConsumer | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns how many messages were acknowledged, refused and set aside, and how many lanes were left unread.

        Raises:
            AirflowFailException: an error that no retry repairs (also a handler that returned a coroutine or generator), or dead letters.
            AirflowException: the task was told to end. What was acknowledged stays so.
        """
        key = task_instance_key(context["ti"])
        with (
            terminal_errors_fail_at_once(),
            _TaskConsumer(
                open_engine(self.relaybox_conn_id, self.subscription, connecting=self._connecting),
                self.subscription,
                max_count=min(self.fetch_size, self.max_messages or self.fetch_size),
                commit_every=self.commit_every,
                lane=self.lane,
                worker=worker_name(key, context["ti"].try_number),
                task_instance=key,
                until_empty=self.until_empty,
            ) as consumer,
            stopped_after(self.max_seconds, consumer.stop),
        ):
            self._consumer = consumer
            consumer.run(self._bounded(consumer))
        counts = {
            "acknowledged": consumer.acknowledged_count,
            "refused": consumer.refused_count,
            "dead_letters": consumer.dead_letter_count,
            "unread_lanes": len(consumer.unread),
        }
        emit("task_consumed", subscription=self.subscription, worker=consumer.worker, **counts)
        if consumer.is_terminated:
            raise AirflowException(
                f"subscription {self.subscription}: the task was told to end after {amount(consumer.acknowledged_count, 'message')}, "
                "which stay acknowledged. The others come again."
            )
        if consumer.dead_letter_count and self.fail_on_dead_letter:
            refused = amount(consumer.dead_letter_count, "message became a dead letter", "messages became dead letters")
            raise AirflowFailException(
                f"subscription {self.subscription}: {refused}, "
                f"{consumer.acknowledged_count} were acknowledged. The log has the reasons. Correct the handler, "
                f"then run: select relaybox.redrive('{self.subscription}', 'REASON')"
            )
        return counts

    def _connecting(self) -> AbstractContextManager[object]:
        return connection_as_service(self.relaybox_conn_id)

    def _bounded(self, consumer: Consumer) -> Handler:
        """The handler; the loop ends after `max_messages` calls of it."""
        calls = 0

        def handle(connection: Connection, message: Message) -> object:
            nonlocal calls
            calls += 1
            if calls == self.max_messages:
                consumer.stop()
            return self.handle(connection, message)

        return cast("Handler", handle)

    def handle(self, connection: Connection, message: Message) -> object:
        """Handles one message. Returns what the handler returned: the loop refuses work that has yet to run."""
        return cast("Callable[..., object]", self.handler)(connection, message)

    def on_kill(self) -> None:
        """Ends the loop after its message."""
        if self._consumer is not None:
            self._consumer.terminate()


class _TaskConsumer(Consumer):
    """Knows whether it was a signal that ended it: then the task is no success. Waits for lanes of its task instance's other attempts."""

    is_terminated = False

    def __init__(self, *given: Any, task_instance: str, **options: Any) -> None:
        super().__init__(*given, **options)
        self._attempts = _worker_prefix(task_instance)

    def _waits_for_lease(self) -> Steps[bool]:
        """A killed attempt's messages are this one's: it ends when their lease has ended and they are handled."""
        self.unread = yield from self._patiently(self._find_unread)  # the result says so, should the task's time end first
        return any((lane.worker or "").startswith(self._attempts) for lane in self.unread)

    def stop(self, *signal: object) -> None:
        self.is_terminated = self.is_terminated or bool(signal)
        super().stop()

    def terminate(self) -> None:
        self.stop("terminated")


def worker_name(key: str, try_number: int) -> str:
    """Another one in each process: an attempt that still runs, and another Airflow with the same DAG, keep what they have leased."""
    return f"{_worker_prefix(key)}{try_number} {uuid.uuid4().hex[:12]}"


def _worker_prefix(key: str) -> str:
    """What the names of all attempts of a task instance begin with."""
    kept = key if len(key) <= _KEY_CHARACTERS else hashlib.sha256(key.encode()).hexdigest()
    return f"{kept} attempt "
