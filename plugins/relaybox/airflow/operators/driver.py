"""A task that may use Spark: by spark-submit, or by a running Spark Connect server."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink

from relaybox.airflow.child_process import driver_environment
from relaybox.airflow.lineage import nothing_moved
from relaybox.airflow.links import SparkApplicationLink
from relaybox.errors import ConfigurationError
from relaybox.monitoring.spark_pages import APPLICATION_FILE
from relaybox.process_lifetime import child_dies_with_parent
from relaybox.spark.application_files import application_file
from relaybox.spark.driver_options import driver_conf

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Connection, Context

    from relaybox.routes import Spark
    from relaybox.spark.connect import ConnectSession
    from relaybox.spark.tasks import TaskSession


class SparkDriverOperator(BaseOperator):
    """Starts spark-submit where `run_driver` is called, and nowhere else; where the connection is a server's, `connect` leads to it.

    In client mode the driver of Spark runs beside the task: it reads its credentials from a service file that exists while it
    runs, sees nothing of Airflow's environment, and dies with the task. In cluster mode it runs where YARN or Kubernetes puts it:
    docs/spark.md says what it needs there.

    Args:
        application: the file in spark_apps.
        arguments: of the application.
        name: of the application.
        routes_text: relaybox.yaml as this task was built from it.
        spark: where and how Spark works for this task.
    """

    operator_extra_links: Collection[BaseOperatorLink] = (SparkApplicationLink(),)
    template_fields: Collection[str] = ("arguments",)

    def __init__(
        self, *, application: str, arguments: Sequence[str], name: str, routes_text: str, spark: Spark, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.application = str(application_file(application))
        self.arguments = list(arguments)
        self.name = name
        self.routes_text = routes_text
        self.spark = spark
        self.spark_application: str | None = None
        self.lineage: OperatorLineage[Any, Any] | None = None
        self.submit_hook: SparkSubmitHook | None = None
        self.connect_session: ConnectSession | None = None

    @property
    def server(self) -> str | None:
        """The address of the Spark Connect server that the Spark connection leads to (type spark_connect); None: it is spark-submit's."""
        if not _leads_to_server(BaseHook.get_connection(self.spark.conn_id)):
            return None
        return SparkConnectHook(self.spark.conn_id).get_connection_url()

    @contextmanager
    def connect(self, server: str, context: Context) -> Iterator[TaskSession]:
        """A session on the server: this task is its driver, so nothing is to be started. Its work ends with the block.

        Raises:
            ConfigurationError: the route has settings that only spark-submit takes, or that the server refuses.
            SparkFailed: the server failed, or did not answer for a minute.
        """
        from relaybox.spark.connect import TaskTry, connect_session  # takes a second, which only tasks with much to do spend

        if self.spark.deploy_mode != "client" or self.spark.queue is not None:
            raise ConfigurationError(
                f"spark.deploy_mode and spark.queue are for spark-submit, but connection {self.spark.conn_id} is of a Spark Connect "
                "server.",
                next_step="Take them out of the route in relaybox.yaml, or give it a connection of type Spark.",
            )
        task = context["ti"]
        task_try = TaskTry(task.dag_id, task.run_id, self.task_id, task.try_number)
        with connect_session(server, task_try, self.spark.conf) as session:
            self.connect_session = session
            self.spark_application = session.application
            try:
                yield session
            finally:
                self.connect_session = None  # Airflow calls on_kill after a time limit too: then its work has ended already

    def told_application(self) -> Path:
        """Where a driver in client mode says, as soon as it has a session, which application it is; within a service_file block."""
        return Path(os.environ["PGSERVICEFILE"]).with_name("application")

    def run_driver(self, *more_arguments: str) -> None:
        """Runs the application to its end, within a service_file block; an AirflowException with its exit code unless that is 0.

        Raises:
            ConfigurationError: the Spark connection leads to a server, to which nothing is submitted, or to a master that runs no
                Python driver in cluster mode.
        """
        # a third of what a transfer imports, and most transfers start no application
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        # asked first: without a connection the hook would quietly submit to YARN
        self._require_submit(BaseHook.get_connection(self.spark.conn_id))
        told = self.told_application()
        routes = told.with_name("relaybox.yaml")
        routes.write_text(self.routes_text, encoding="utf-8")  # what this task was built from: the file may change meanwhile
        environment = {**driver_environment(routes), APPLICATION_FILE: str(told)}
        is_far = self.spark.deploy_mode == "cluster"
        hook = SparkSubmitHook(
            conn_id=self.spark.conn_id,
            conf=driver_conf(self.spark.conf),
            deploy_mode=self.spark.deploy_mode,
            yarn_queue=self.spark.queue,
            name=self.name,
            files=str(routes) if is_far else None,
            application_args=[*self.arguments, *more_arguments, *(["--config", routes.name] if is_far else [])],
        )
        self.submit_hook = hook
        try:
            # a driver that lived on after a killed task would work beside the retry: the stores survive that, the retry would wait
            hook.submit(self.application, env=environment, preexec_fn=child_dies_with_parent())
        finally:
            self.spark_application = told.read_text(encoding="utf-8") if told.exists() else None

    def _require_submit(self, connection: Connection) -> None:
        if _leads_to_server(connection):
            raise ConfigurationError(
                f"{Path(self.application).name} needs spark-submit, but connection {self.spark.conn_id} is of a Spark Connect server.",
                next_step="Give the task a connection of type Spark, or run its command on a machine with Spark: see docs/operations.md",
            )
        if self.spark.deploy_mode == "cluster" and not _runs_python_drivers(connection):
            raise ConfigurationError(
                f"spark.deploy_mode is cluster, but connection {self.spark.conn_id} leads to {connection.host or 'no master'}, "
                "which runs no Python driver.",
                next_step="Set spark.deploy_mode: client in relaybox.yaml. Only YARN and Kubernetes run Python drivers: see docs/spark.md",
            )

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Asked by OpenLineage's listener, in this process, when the task has ended."""
        return self.lineage or nothing_moved()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The same when it has failed: the tables, and what was moved before. The error is added by OpenLineage's listener."""
        return self.lineage or nothing_moved()

    def on_kill(self) -> None:
        """Ends what Spark does for this task, if it does something; threads end with the task's process."""
        if self.submit_hook is not None:
            self.submit_hook.on_kill()
        if self.connect_session is not None:
            self.connect_session.end()


def _leads_to_server(connection: Connection) -> bool:
    return connection.conn_type == SparkConnectHook.conn_type


def _runs_python_drivers(connection: Connection) -> bool:
    """Whether the master is YARN or Kubernetes: a connection from a URI has the scheme of the master as its type."""
    return (connection.host or "").startswith(("yarn", "k8s://")) or connection.conn_type in {"yarn", "k8s"}
