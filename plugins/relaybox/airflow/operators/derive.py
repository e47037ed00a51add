"""The task that derives the messages of a route."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.naming import RUN_NAME_TEMPLATE, run_name
from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.routes import Route
from relaybox.spark.derivations.ledger import open_ledger

if TYPE_CHECKING:
    from airflow.sdk import Context


class DeriveOperator(SparkDriverOperator):
    """Runs the application derive.py, or skips when there is no message: looking costs milliseconds, a JVM ten seconds.

    Safe to run, kill, clear or run twice at any time: an attempt that a later one ended publishes nothing.
    """

    def __init__(self, *, route: Route, **kwargs: Any) -> None:
        super().__init__(
            application="derive.py",
            arguments=["--route", route.name, "--recorded-by", RUN_NAME_TEMPLATE],
            name=f"relaybox {route.name} derive",
            spark=route.spark,
            **kwargs,
        )
        self.route = route

    def execute(self, context: Context) -> None:
        derivation = self.route.require_derivation()
        with terminal_errors_fail_at_once(), service_file([self.route.path[0]]):
            with open_ledger(self.route, derivation) as ledger:
                if not ledger.has_work():
                    raise AirflowSkipException(f"route {self.route.name}: stream {derivation.stream} has no new message")
            if server := self.server:
                # takes a second, which only tasks with something to do spend
                from relaybox.spark.derivations.deriving import derive

                with self.connect(server, context) as session:
                    derive(self.route, derivation, session, recorded_by=run_name(context["ti"]))
            else:
                self.run_driver()
