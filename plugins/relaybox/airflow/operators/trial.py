"""The tasks that try the next version of a derivation, show what differs, and promote it or drop it, as a person said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.approvals import approved, cell, rejected
from relaybox.airflow.forms import REASON, given, person
from relaybox.airflow.naming import RUN_NAME_TEMPLATE, run_name
from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.operators.route_operator import RouteOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.routes import Route
from relaybox.spark.derivations.source import load_source
from relaybox.spark.derivations.trials import DIFFERENCES, TrialComparison, open_trials

if TYPE_CHECKING:
    from airflow.sdk import Context

START, THROUGH, REPUBLISH = "start", "through", "republish"


class TryOperator(SparkDriverOperator):
    """Runs the application derive.py with --trial. Safe to run, kill, clear or run twice: it goes on with the open trial.

    A run of the DAG begins one trial. If that was dropped, a task that is cleared or retried begins no other one.
    """

    def __init__(self, *, route: Route, **kwargs: Any) -> None:
        super().__init__(
            application="derive.py",
            arguments=["--route", route.name, "--trial", "--once", "--recorded-by", RUN_NAME_TEMPLATE],
            name=f"relaybox {route.name} trial",
            spark=route.spark,
            **kwargs,
        )
        self.route = route

    def execute(self, context: Context) -> None:
        params = context["params"]
        start, through = (str(params[name]) if params.get(name) else None for name in (START, THROUGH))
        given(params, REASON, "Reason")
        with terminal_errors_fail_at_once(), service_file([self.route.path[0]]):
            if server := self.server:
                # takes a second, which only tasks with something to do spend
                from relaybox.spark.derivations.trying import try_next

                with self.connect(server, context) as session:
                    try_next(self.route, session, start=start, through=through, recorded_by=run_name(context["ti"]), once=True)
            else:
                self.run_driver(*(["--from", start] if start else []), *(["--through", through] if through else []))


class CompareOperator(RouteOperator):
    """Compares the open trial with what the present version has sent. Changes nothing."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the trial and a table to approve: counts, and no key and no payload."""
        with terminal_errors_fail_at_once(), service_file([self.route.path[0]]), open_trials(self.route) as trials:
            found = trials.compare(sample_count=0)
        republish = bool(context["params"].get(REPUBLISH))
        table = comparison_table(self.route, found, republish=republish)
        self.log.info("%s", table)
        return {"trial_id": found.trial.trial_id, "republish": republish, "table": table}


def comparison_table(route: Route, found: TrialComparison, *, republish: bool) -> str:
    """Returns Markdown: what was tried, what the promotion does, and a row of counts for each topic."""
    trial = found.trial
    rows = [f"| {' | '.join((cell(topic.topic), *(str(count) for count in topic[1:])))} |" for topic in found.topics]
    begin = f"stream position {trial.first_stream_position}, again" if republish else f"what version {trial.old_version} has done"
    versions = f"version {trial.version} ({cell(trial.source_name)}) against version {trial.old_version}"
    positions = f"stream positions {found.compared_from} to {trial.last_stream_position}"
    told = [
        f"Route {cell(route.name)}, trial {trial.trial_id}: {versions}, {positions}.",
        f"Version {trial.version} is to begin {'at' if republish else 'after'} {begin}.",
        f"Messages for which the function fails: {found.set_aside}. Keys with differences: {found.changed_keys}.",
        f"Approve: version {trial.version} is promoted. Reject: the trial is dropped, and its messages are deleted.",
        "No answer for a day: the run fails, and the trial stays open.",
        "\n".join([f"| topic | {' | '.join(DIFFERENCES)} |", "|---|---|---|---|---|", *rows]),
    ]
    if found.compared_from > trial.first_stream_position:
        told.insert(
            1, f"Not compared: {trial.first_stream_position} to {found.compared_from - 1}, which the outbox does not keep whole."
        )
    return "\n\n".join(told)


class PromoteOperator(RouteOperator):
    """Promotes the approved trial, and no other one. Idempotent."""

    def execute(self, context: Context) -> dict[str, int]:
        """Returns the version and the stream position from which it derives."""
        params, candidate = context["params"], self.route.require_next()
        with terminal_errors_fail_at_once(), service_file([self.route.path[0]]):
            found, approved_by = approved(context)
            source = load_source(candidate, route=self.route.name)
            with open_trials(self.route) as trials:
                first = trials.promote(
                    int(found["trial_id"]),
                    source,
                    republish=bool(found["republish"]),
                    promoted_by=f"{person(context)}, approved by {approved_by}",
                    reason=given(params, REASON, "Reason"),
                )
        return {"version": candidate.version, "first_stream_position": first}


class DropRejectedOperator(RouteOperator):
    """Drops the rejected trial, and no other one. Idempotent. Skipped after an approval; fails if nobody answered: the trial is open."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the trial, and whether this try of the task has dropped it."""
        found = rejected(context)
        if found is None:
            raise AirflowSkipException("The trial was approved: there is nothing to drop.")
        trial_id = int(found.shown["trial_id"])
        if found.by is None:
            raise AirflowFailException(
                f"Nobody answered in time: trial {trial_id} of route {self.route.name} stays open, and the store keeps its messages. To be "
                f"asked again, trigger this DAG again: it goes on with the trial. To drop it: relaybox trials drop {self.route.name} "
                "--reason WHY"
            )
        reason = f"rejected; {person(context)} had asked for it: {given(context['params'], REASON, 'Reason')}"
        with terminal_errors_fail_at_once(), service_file([self.route.path[0]]), open_trials(self.route) as trials:
            is_dropped = trials.drop_trial(trial_id, dropped_by=found.by, reason=reason)
        return {"trial_id": trial_id, "dropped": is_dropped}
