"""The tasks of the daily verification: one per route, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.assets import verification_asset
from relaybox.airflow.lineage import lineage_is_asked_for, verification_lineage
from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.errors import ConfigurationError
from relaybox.log_events import emit
from relaybox.routes import Route
from relaybox.spark.comparison_runner import SparkComparisonRunner
from relaybox.verification.comparison_runners import ComparisonTooLarge
from relaybox.verification.results import read_verification, verification_line
from relaybox.verification.route_verification import verification_session, verify_route

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

    from relaybox.verification.results import RouteVerification

EVERY_ROUTE = "every route"


class RouteVerifyOperator(SparkDriverOperator):
    """Compares the stores of a route message by message. Its success says that the verification was made, not what it found.

    The task compares few messages itself, and many by Spark: `runner` and `limits.spark_from_rows` of the
    route decide, as for its transfers.
    """

    def __init__(self, *, route: Route, **kwargs: Any) -> None:
        super().__init__(
            application="verify.py",
            arguments=["--route", route.name],
            name=f"relaybox {route.name} verify",
            spark=route.spark,
            **kwargs,
        )
        self.route = route

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the row of the report. Messages in flight and messages that a stream set aside are no defect."""
        if context["params"]["route"] not in (EVERY_ROUTE, self.route.name):
            raise AirflowSkipException(f"route {self.route.name} was not chosen in the form")
        with terminal_errors_fail_at_once(), service_file(dict.fromkeys(self.route.path)) as services:
            verification = self._verify(context, services.with_name("verification.json"))
            if lineage_is_asked_for():
                self.lineage = verification_lineage(self.route, verification)
        line = verification_line(verification)
        context["outlet_events"][verification_asset(self.route.name)].extra = dict(line)
        return line

    def _verify(self, context: Context, result: Path) -> RouteVerification:
        """`result`: file for the result of a Spark application, in a directory that only this user can read."""
        runner, limits = self.route.runner, self.route.limits
        reason = f"runner: {runner}"
        if runner != "spark":
            try:
                return verify_route(self.route, below_rows=limits.spark_from_rows if runner == "auto" else None)
            except ComparisonTooLarge as left:
                reason = str(left)
        emit("runner_chosen", route=self.route.name, runner="spark", reason=reason)
        if server := self.server:
            with self.connect(server, context) as session:
                return verify_route(
                    self.route, runner=SparkComparisonRunner(session, session_name=verification_session(self.route.name))
                )
        if self.spark.deploy_mode == "cluster":
            raise ConfigurationError(
                f"route {self.route.name}: spark.deploy_mode is cluster, where a verification can't hand its result to its task.",
                next_step="Set runner: threads, spark.deploy_mode: client, or a connection of a Spark Connect server: see docs/spark.md",
            )
        self.run_driver("--result", str(result))
        return read_verification(result)


class VerificationReportOperator(BaseOperator):
    """The report of a run, in its log and in XCom. Fails if a route has a defect or could not be verified."""

    def __init__(self, *, verification_task_ids: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verification_task_ids = tuple(verification_task_ids)

    def execute(self, context: Context) -> str:
        """Returns the report as a Markdown table of the chosen routes."""
        asked = context["params"]["route"]
        wanted = [task for task in self.verification_task_ids if asked in (EVERY_ROUTE, task.rpartition(".")[2])]
        lines = {task.rpartition(".")[2]: context["ti"].xcom_pull(task_ids=task) for task in wanted}
        report = verification_report(lines)
        self.log.info("%s", report)
        bad = [route for route, line in lines.items() if line is None or line["defects"]]
        if bad:
            raise AirflowFailException(
                f"{report}\nDelivery is not verified: {', '.join(bad)}. See docs/runbooks/loss-or-duplicates.md. "
                f"Run: relaybox verify {bad[0]}"
            )
        return report


def verification_report(lines: dict[str, dict[str, Any] | None]) -> str:
    """Returns a Markdown table with a row per route, also for a route without a result."""
    rows = [
        "| route | outcome | sent | received | in flight | set aside | R | UR | defects | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for route, line in lines.items():
        if line is None:
            rows.append(f"| {route} | not verified: see the log of its task | | | | | | | | |")
        else:
            rows.append(
                f"| {route} | {line['outcome']} | {line['sent']} | {line['received']} | {line['in_flight']} | {line['set_aside']} "
                f"| {line['reliability']} | {line['uniqueness']} | {line['defects']} | {line['duration_seconds']:.1f} |"
            )
    return "\n".join(rows)
