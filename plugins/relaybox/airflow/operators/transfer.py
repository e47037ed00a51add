"""The task that runs a hop."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.observability import stats

from relaybox.airflow.assets import log_asset
from relaybox.airflow.head_start import head_start
from relaybox.airflow.hop_state import HopState, read_hop_state
from relaybox.airflow.lineage import lineage_is_asked_for, transfer_lineage
from relaybox.airflow.links import BatchesLink, SparkApplicationLink
from relaybox.airflow.naming import RUN_NAME_TEMPLATE, run_name
from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.slot_use import APPLICATION_IDLE_SECONDS, SlotDemand, idle_seconds
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.airflow.transfer_params import with_params
from relaybox.errors import RelayboxError
from relaybox.hops.runners import BatchTooLarge, ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.log_events import emit
from relaybox.monitoring.spark_pages import READY_FILE
from relaybox.routes import Hop
from relaybox.spark.runner import SparkRunner

if TYPE_CHECKING:
    from airflow.sdk import Context

    from relaybox.hops.runners import SliceRunner

LINGER_AT_MOST_SECONDS = 600.0
"""A lingering transfer ends after this time, even if messages still arrive; as in a Spark application."""

_LINGER_ARGUMENTS = ("--linger-seconds", f"{{{{ [params.linger_seconds, {APPLICATION_IDLE_SECONDS:g}] | min }}}}")


class HopTransferOperator(SparkDriverOperator):
    """Moves the messages of a hop until none is left, or skips if there is none.

    The check costs milliseconds; a Spark application without work costs ten seconds. Threads of the task
    move small backlogs, Spark moves large ones: `runner` and `limits.spark_from_rows` of the route decide.
    The protocol is the same. The task holds its slot without a message for a few seconds only: see slot_use.
    Safe to run, kill, clear or run twice at any time: the protocol does not depend on Airflow.
    """

    operator_extra_links = (BatchesLink(), SparkApplicationLink())

    def __init__(self, *, hop: Hop, **kwargs: Any) -> None:
        super().__init__(
            application="transfer.py",
            arguments=["--hop", hop.name, "--recorded-by", RUN_NAME_TEMPLATE, *_LINGER_ARGUMENTS],
            name=f"relaybox {hop.name}",
            spark=hop.spark,
            **kwargs,
        )
        self.hop = hop

    def execute(self, context: Context) -> dict[str, int]:
        """Returns the hop's newest batch and log position, for display in XCom."""
        self.hop = with_params(self.hop, context.get("params") or {})
        with terminal_errors_fail_at_once(), service_file((self.hop.source, self.hop.destination)):
            state = read_hop_state(self.hop)
            if state.has_work:
                before, started = state, time.monotonic()
                try:
                    self._move(context, before.waiting_count)
                except Exception:
                    self._tell_moved_before_failure(before)
                    raise
                state = read_hop_state(self.hop)
                self._measure(before, state, time.monotonic() - started)
                if lineage_is_asked_for():
                    self.lineage = transfer_lineage(self.hop, row_count=state.log_position - before.log_position)
            elif context["ti"].try_number == 1 or state.batch == 0:
                raise AirflowSkipException(f"hop {self.hop.name}: no message to move")
            # an earlier attempt moved all messages and died: deliver what it published, and trigger the next hop
            else:
                self._run_threads(context, linger_seconds=0.0)
            return self._announce(context, state)

    def _tell_moved_before_failure(self, before: HopState) -> None:
        """For OpenLineage's event of the failure: batches that were published stay so. Asks the stores, which may be why it failed."""
        if lineage_is_asked_for():
            try:
                moved = read_hop_state(self.hop).log_position - before.log_position
                self.lineage = transfer_lineage(self.hop, row_count=moved)
            except (
                RelayboxError
            ) as error:  # the event of the failure then names no table; the task's own error is the one to tell
                emit("lineage_not_told", hop=self.hop.name, error=error)

    def _measure(self, before: HopState, after: HopState, seconds: float) -> None:
        """To Airflow's own metrics: as `airflow.relaybox.*`, with the hop as a tag."""
        tags = {"hop": self.hop.name}
        stats.incr("relaybox.messages_moved", after.log_position - before.log_position, tags=tags)
        stats.incr("relaybox.batches_moved", after.batch - before.batch, tags=tags)
        stats.timing("relaybox.transfer_duration", timedelta(seconds=seconds), tags=tags)
        stats.gauge("relaybox.waiting_messages", after.waiting_count, tags=tags)

    def _move(self, context: Context, waiting_count: int) -> None:
        runner = self._choose_runner(waiting_count)
        emit("runner_chosen", hop=self.hop.name, runner=runner, waiting=waiting_count)
        if runner == "threads":
            try:
                self._run_threads(context, linger_seconds=idle_seconds(self.hop))
            except BatchTooLarge as left:
                emit("runner_chosen", hop=self.hop.name, runner="spark", reason=left)
            else:
                return
        if server := self.server:
            with self.connect(server, context) as session:
                self._run(context, SparkRunner(session), linger_seconds=idle_seconds(self.hop))
        elif self.hop.runner == "auto" and self.spark.deploy_mode == "client":
            ready = self.told_application().with_name(READY_FILE)
            with head_start(self.hop, recorded_by=run_name(context["ti"]), has_started=ready.exists):
                self.run_driver()
        else:
            self.run_driver()

    def _choose_runner(self, waiting_count: int) -> str:
        if self.hop.runner != "auto":
            return self.hop.runner
        return "spark" if waiting_count >= self.hop.limits.spark_from_rows else "threads"

    def _run_threads(self, context: Context, *, linger_seconds: float) -> None:
        """Raises BatchTooLarge when, while it lingers, a batch comes that Spark is to move."""
        below_rows = self.hop.limits.spark_from_rows if self.hop.runner == "auto" else None
        with ThreadRunner(below_rows=below_rows) as runner:
            self._run(context, runner, linger_seconds=linger_seconds)

    def _run(self, context: Context, runner: SliceRunner, *, linger_seconds: float) -> None:
        transfer_hop(
            self.hop,
            runner,
            recorded_by=run_name(context["ti"]),
            linger_seconds=linger_seconds,
            linger_at_most_seconds=LINGER_AT_MOST_SECONDS,
            is_slot_wanted=SlotDemand(self.hop, context["ti"]).is_slot_wanted,
        )

    def _announce(self, context: Context, state: HopState) -> dict[str, int]:
        numbers = {"batch": state.batch, "log_position": state.log_position}
        context["outlet_events"][log_asset(self.hop)].extra = dict(numbers)
        return numbers
