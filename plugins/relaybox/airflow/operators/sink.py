"""The task that delivers the messages of a stream to a webhook or to Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from relaybox.airflow.service_file import service_file
from relaybox.airflow.sink_secrets import find_in_airflow
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.amounts import amount
from relaybox.consumer.stop_signals import stopped_after
from relaybox.routes import Sink
from relaybox.sinks.running import SinkRunner

if TYPE_CHECKING:
    from airflow.sdk import Context

RUN_SECONDS = 600.0
"""A run ends after this time, and the next one goes on: a task that never ends would keep a slot, and its log."""


class SinkOperator(BaseOperator):
    """Delivers what waits, and ends. Safe to run, kill, clear or run twice at any time: a message may arrive twice, with the same id.

    Args:
        sink: of relaybox.yaml. The login of its store's connection has relaybox_consumer.
    """

    ui_color = "#e6eef7"

    def __init__(self, *, sink: Sink, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sink = sink
        self._runner: _TaskRunner | None = None

    def execute(self, context: Context) -> dict[str, int]:
        """Returns how many messages were delivered, refused and set aside, and how many lanes were left unread.

        Raises:
            AirflowFailException: an error that no retry repairs, or dead letters.
            EndpointUnavailable: the endpoint takes no message now; the retries of the sink follow, then the next run.
            AirflowException: the task was told to end. What was acknowledged stays so.
        """
        sink = self.sink
        with terminal_errors_fail_at_once(), service_file([sink.store]):
            self._runner = _TaskRunner(sink, find_in_airflow, until_empty=True)
            with stopped_after(RUN_SECONDS, self._runner.stop):
                ended = self._runner.run()
        if self._runner.is_terminated:
            raise AirflowException(
                f"{sink.kind} {sink.name}: the task was told to end after {amount(ended.delivered_count, 'message')}. "
                "The others come again."
            )
        if ended.dead_letter_count:
            became = amount(ended.dead_letter_count, "message became a dead letter", "messages became dead letters")
            raise AirflowFailException(
                f"{sink.kind} {sink.name}: {became}: {sink.endpoint} refuses them. {ended.delivered_count} were delivered. See the "
                f"reasons: relaybox dead-letters list {sink.store.name} --subscription {sink.subscription}. Correct the endpoint. "
                f'Then run: relaybox dead-letters redrive {sink.subscription} --reason "..."'
            )
        return {
            "delivered": ended.delivered_count,
            "refused": ended.refused_count,
            "dead_letters": ended.dead_letter_count,
            "unread_lanes": len(ended.unread),
        }

    def on_kill(self) -> None:
        """Ends the run after what it sends now."""
        if self._runner is not None:
            self._runner.stop("terminated")


class _TaskRunner(SinkRunner):
    """Knows whether it was a signal that ended it: then the task is no success."""

    is_terminated = False

    def stop(self, *signal: object) -> None:
        self.is_terminated = self.is_terminated or bool(signal)
        super().stop()
