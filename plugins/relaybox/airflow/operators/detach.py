"""The task that detaches, with Spark, what only stopped consumers of a store need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.naming import RUN_NAME_TEMPLATE, run_name
from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.operators.retention import EVERY_STORE
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.retention.detaching import detach_segments, has_detach_work
from relaybox.routes import Routes, Store

if TYPE_CHECKING:
    from airflow.sdk import Context


class DetachOperator(SparkDriverOperator):
    """Runs the application detach.py, or skips when there is nothing to detach: looking costs milliseconds, a JVM ten seconds.

    Safe to run, kill, clear or run twice at any time.
    """

    def __init__(self, *, store: Store, routes: Routes, **kwargs: Any) -> None:
        super().__init__(
            application="detach.py",
            arguments=["--store", store.name, "--recorded-by", RUN_NAME_TEMPLATE],
            name=f"relaybox {store.name} detach",
            **kwargs,
        )
        self.store = store
        self.routes = routes

    def execute(self, context: Context) -> None:
        params = context["params"]
        if params["store"] not in (EVERY_STORE, self.store.name):
            raise AirflowSkipException(f"store {self.store.name} was not chosen in the form")
        if params["dry_run"]:
            raise AirflowSkipException("dry run: nothing is detached")
        with terminal_errors_fail_at_once(), service_file([self.store]):
            if not has_detach_work(self.store, self.routes):
                raise AirflowSkipException(f"store {self.store.name}: no segment to detach")
            if server := self.server:
                from relaybox.spark.archive import SparkArchive  # takes a second, which only tasks with something to detach spend

                with self.connect(server, context) as session:
                    detach_segments(self.store, SparkArchive(session), recorded_by=run_name(context["ti"]), routes=self.routes)
            else:
                self.run_driver()
