"""The task that writes a stream into a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.errors import ConfigurationError
from relaybox.routes import Export

if TYPE_CHECKING:
    from airflow.sdk import Context


class ExportOperator(SparkDriverOperator):
    """Runs the application export.py, or skips when there is no message: looking costs less than a second, a JVM ten.

    Safe to run, kill, clear or run twice at any time: the table refuses a commit that another run was before.
    """

    def __init__(self, *, export: Export, **kwargs: Any) -> None:
        super().__init__(
            application="export.py",
            arguments=["--export", export.name],
            name=f"relaybox {export.name} export",
            spark=export.spark,
            **kwargs,
        )
        self.export = export

    def execute(self, context: Context) -> None:
        with terminal_errors_fail_at_once(), service_file([self.export.store]):
            try:
                # takes a second, which only tasks spend
                from relaybox.spark.lake.exporting import count_waiting, export_stream
            except ImportError as error:
                raise ConfigurationError(
                    f"export {self.export.name}: an export needs Spark and the library of its format: {error}.",
                    next_step="Install relaybox[spark,lake] where Airflow's workers run.",
                ) from error
            if count_waiting(self.export).is_done:
                raise AirflowSkipException(f"export {self.export.name}: stream {self.export.stream} has no new message")
            if server := self.server:
                with self.connect(server, context) as session:
                    export_stream(self.export, session)
            else:
                self.run_driver()
