"""A task that may use Spark: by spark-submit, or by a running Spark Connect server."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, BaseOperatorLink

from relaybox.airflow.child_process import driver_environment
from relaybox.airflow.lineage import nothing_moved
from relaybox.airflow.links import SparkApplicationLink
from relaybox.errors import ConfigurationError
from relaybox.monitoring.spark_pages import APPLICATION_FILE
from relaybox.process_lifetime import child_dies_with_parent
from relaybox.spark.application_files import application_file
from relaybox.spark.driver_options import driver_java_options

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from relaybox.spark.tasks import TaskSession


class SparkDriverOperator(SparkSubmitOperator):
    """Starts spark-submit where `run_driver` is called, and nowhere else; where the connection is a server's, `connect` leads to it.

    The driver of Spark runs beside the task (client mode): it reads its credentials from a service file that exists while it runs,
    sees nothing of Airflow's environment, and dies with the task.
    """

    operator_extra_links: Collection[BaseOperatorLink] = (SparkApplicationLink(),)

    def __init__(self, *, application: str, arguments: Sequence[str], name: str, routes_text: str, **kwargs: Any) -> None:
        super().__init__(
            application=str(application_file(application)),
            application_args=list(arguments),
            name=name,
            conf={"spark.driver.extraJavaOptions": driver_java_options(), "spark.ui.enabled": "false"},
            deploy_mode="client",
            **kwargs,
        )
        self.routes_text = routes_text
        self.spark_application: str | None = None
        self.lineage: OperatorLineage[Any, Any] | None = None

    @property
    def server(self) -> str | None:
        """The address of the Spark Connect server that the Spark connection leads to (type spark_connect); None: it is spark-submit's."""
        if BaseHook.get_connection(self._conn_id).conn_type != SparkConnectHook.conn_type:
            return None
        return SparkConnectHook(self._conn_id).get_connection_url()

    @contextmanager
    def connect(self, server: str) -> Iterator[TaskSession]:
        """A session on the server: this task is its driver, so nothing is to be started."""
        from relaybox.spark.connect import connect_session  # takes a second, which only tasks with much to do spend

        with connect_session(server) as session:
            self.spark_application = session.application
            yield session

    def run_driver(self, *more_arguments: str) -> None:
        """Runs the application to its end, within a service_file block; an AirflowException with its exit code unless that is 0.

        Raises:
            ConfigurationError: the Spark connection leads to a server, to which nothing is submitted.
        """
        if self.server:  # asked first: without a connection the hook would quietly submit to YARN
            raise ConfigurationError(
                f"{Path(self.application).name} needs spark-submit, but connection {self._conn_id} is of a Spark Connect server.",
                next_step="Give the task a connection of type Spark, or run its command on a machine with Spark: see docs/operations.md",
            )
        self.application_args = [*(self.application_args or []), *more_arguments]
        self._hook = self._get_hook()  # where the base class's on_kill finds the process
        told = Path(os.environ["PGSERVICEFILE"]).with_name("application")
        routes = told.with_name("relaybox.yaml")
        routes.write_text(self.routes_text, encoding="utf-8")  # what this task was built from: the file may change meanwhile
        environment = {**driver_environment(routes), APPLICATION_FILE: str(told)}
        try:
            # a driver that lived on after a killed task would work beside the retry: the stores survive that, the retry would wait
            self._hook.submit(self.application, env=environment, preexec_fn=child_dies_with_parent())
        finally:
            self.spark_application = told.read_text(encoding="utf-8") if told.exists() else None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Asked by OpenLineage's listener, in this process, when the task has ended."""
        return self.lineage or nothing_moved()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The same when it has failed: the tables, and what was moved before. The error is added by OpenLineage's listener."""
        return self.lineage or nothing_moved()

    def on_kill(self) -> None:
        """Ends Spark, if it was started; threads end with the task's process."""
        if self._hook is not None:
            super().on_kill()
