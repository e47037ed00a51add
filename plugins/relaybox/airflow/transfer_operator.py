"""The task that runs a hop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.assets import log_asset
from relaybox.airflow.child_process import driver_environment
from relaybox.airflow.hop_state import HopState, read_hop_state
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.driver_options import driver_java_options
from relaybox.parents import child_dies_with_parent
from relaybox.routes import Hop

if TYPE_CHECKING:
    from airflow.sdk import Context


class HopTransferOperator(SparkSubmitOperator):
    """Runs a hop with spark-submit until it is empty, or skips when there is nothing to move.

    Looking first costs milliseconds, a Spark application that finds nothing costs ten seconds. The driver runs beside the
    task (client mode): it reads its credentials from a service file that exists while it runs, sees nothing of Airflow's
    environment, and dies with the task. Safe to run, kill, clear or run twice at any time: the protocol does not lean on Airflow.
    """

    def __init__(self, *, hop: Hop, application: str, route_file: Path, **kwargs: Any) -> None:
        super().__init__(
            application=application,
            application_args=["--hop", hop.name, "--recorded-by", "{{ dag.dag_id }} {{ run_id }}"],
            name=f"relaybox {hop.name}",
            conf={"spark.driver.extraJavaOptions": driver_java_options(), "spark.ui.enabled": "false"},
            deploy_mode="client",
            **kwargs,
        )
        self.hop = hop
        self.route_file = route_file

    def execute(self, context: Context) -> dict[str, int]:  # type: ignore[override]  # the base class returns nothing
        """Returns the hop's newest batch and position: numbers to look at in XCom, read by nobody."""
        with terminal_errors_fail_at_once(), service_file((self.hop.source, self.hop.destination)):
            state = read_hop_state(self.hop)
            if state.has_work:
                self._run_driver()
                state = read_hop_state(self.hop)
            elif context["ti"].try_number == 1 or state.batch == 0:
                raise AirflowSkipException(f"hop {self.hop.name}: nothing to move")
            # else an earlier try moved it all and could not say so: this one wakes the next hop
            return self._announce(context, state)

    def _run_driver(self) -> None:
        BaseHook.get_connection(self._conn_id)  # without it the hook would quietly submit to YARN
        self._hook = self._get_hook()  # where the base class's on_kill finds the process
        # a driver that lived on after a killed task would write beside the retry: the protocol survives that, the retry would wait
        self._hook.submit(self.application, env=driver_environment(self.route_file), preexec_fn=child_dies_with_parent())

    def _announce(self, context: Context, state: HopState) -> dict[str, int]:
        numbers = {"batch": state.batch, "position": state.position}
        context["outlet_events"][log_asset(self.hop)].extra = dict(numbers)
        return numbers
