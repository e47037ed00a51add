"""The task that detaches, with Spark, what only stopped consumers of a store need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.child_process import driver_environment
from relaybox.airflow.retention_operator import EVERY_STORE
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.detaching import has_detach_work
from relaybox.driver_options import driver_java_options
from relaybox.parents import child_dies_with_parent
from relaybox.routes import Store

if TYPE_CHECKING:
    from airflow.sdk import Context


class DetachOperator(SparkSubmitOperator):
    """Runs spark_apps/detach.py, or skips when there is nothing to detach: looking costs milliseconds, a JVM ten seconds.

    The driver runs as that of HopTransferOperator does. Safe to run, kill, clear or run twice at any time.
    """

    def __init__(self, *, store: Store, application: str, route_file: Path, **kwargs: Any) -> None:
        super().__init__(
            application=application,
            application_args=["--store", store.name, "--recorded-by", "{{ dag.dag_id }} {{ run_id }}"],
            name=f"relaybox detach {store.name}",
            conf={"spark.driver.extraJavaOptions": driver_java_options(), "spark.ui.enabled": "false"},
            deploy_mode="client",
            **kwargs,
        )
        self.store = store
        self.route_file = route_file

    def execute(self, context: Context) -> None:
        params = context["params"]
        if params["store"] not in (EVERY_STORE, self.store.name):
            raise AirflowSkipException(f"store {self.store.name} was not asked for")
        if params["dry_run"]:
            raise AirflowSkipException("a dry run detaches nothing")
        with terminal_errors_fail_at_once(), service_file([self.store]):
            if not has_detach_work(self.store):
                raise AirflowSkipException(f"store {self.store.name}: nothing to detach")
            BaseHook.get_connection(self._conn_id)  # without it the hook would quietly submit to YARN
            self._hook = self._get_hook()  # where on_kill finds the process
            self._hook.submit(self.application, env=driver_environment(self.route_file), preexec_fn=child_dies_with_parent())

    def on_kill(self) -> None:
        """Ends Spark, if it was started."""
        if self._hook is not None:
            super().on_kill()
