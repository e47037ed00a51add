"""The tasks of the daily proof of delivery: one per route, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.assets import proof_asset
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.events import emit
from relaybox.reliability import show_ratio
from relaybox.routes import Route
from relaybox.verification import verify_route

if TYPE_CHECKING:
    from airflow.sdk import Context

    from relaybox.verification import RouteProof

EVERY_ROUTE = "every route"


class RouteProofOperator(BaseOperator):
    """Compares the stores of a route message by message. Its success says that the proof was made, not what it found."""

    def __init__(self, *, route: Route, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.route = route

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the line of the report. Messages that are on their way are no defect."""
        if context["params"]["route"] not in (EVERY_ROUTE, self.route.name):
            raise AirflowSkipException(f"route {self.route.name} was not asked for")
        with terminal_errors_fail_at_once(), service_file(dict.fromkeys(self.route.path)):
            proof = verify_route(self.route)
        line = _line(proof)
        emit("route_verified", **line)
        context["outlet_events"][proof_asset(self.route.name)].extra = dict(line)
        return line


def _line(proof: RouteProof) -> dict[str, Any]:
    whole = proof.end_to_end
    return {
        "route": proof.route,
        "verdict": proof.verdict,
        "sent": whole.sent,
        "received": whole.received,
        "in_flight": whole.in_flight,
        "reliability": show_ratio(whole.delivery.reliability),
        "uniqueness": show_ratio(whole.delivery.uniqueness),
        "defects": sum(leg.defect_count for leg in (*proof.hops, whole)),
        "duration_seconds": proof.duration_seconds,
    }


class ProofReportOperator(BaseOperator):
    """The report of a run, in its log and in XCom. Fails when any route has a defect or could not be proved."""

    def __init__(self, *, proof_task_ids: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.proof_task_ids = tuple(proof_task_ids)

    def execute(self, context: Context) -> str:
        """Returns the report as a Markdown table. A route that was not asked for is not in it."""
        asked = context["params"]["route"]
        wanted = [task for task in self.proof_task_ids if asked in (EVERY_ROUTE, task.rpartition(".")[2])]
        lines = {task.rpartition(".")[2]: context["ti"].xcom_pull(task_ids=task) for task in wanted}
        report = proof_report(lines)
        self.log.info("%s", report)
        bad = [route for route, line in lines.items() if line is None or line["defects"]]
        if bad:
            raise AirflowFailException(
                f"{report}\nNot proved: {', '.join(bad)}. See docs/runbooks/loss-or-duplicates.md, and: relaybox verify {bad[0]}"
            )
        return report


def proof_report(lines: dict[str, dict[str, Any] | None]) -> str:
    """A Markdown table with a row per route; one without a proof says so."""
    rows = [
        "| route | verdict | sent | received | in flight | R | UR | defects | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for route, line in lines.items():
        if line is None:
            rows.append(f"| {route} | no proof: see its task | | | | | | | |")
        else:
            rows.append(
                f"| {route} | {line['verdict']} | {line['sent']} | {line['received']} | {line['in_flight']} | {line['reliability']} "
                f"| {line['uniqueness']} | {line['defects']} | {line['duration_seconds']:.1f} |"
            )
    return "\n".join(rows)
