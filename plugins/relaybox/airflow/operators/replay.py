"""The two tasks of a replay: count, and replay."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.approvals import PinnedApprovalOperator, approved, as_xcom, cell, describe_pinned, pinned, shown
from relaybox.airflow.forms import REASON, SUBSCRIPTION, asker, chosen_store, given, person
from relaybox.airflow.naming import APPROVE_TASK_ID, COUNT_TASK_ID
from relaybox.airflow.operators.route_operator import RouteOperator
from relaybox.airflow.replay_trigger import ReplayTrigger
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.log_events import emit
from relaybox.routes import Route, Store
from relaybox.subscriptions import subscriptions
from relaybox.subscriptions.approvals import PinnedSubscription, pin_subscription, requires_approval
from relaybox.subscriptions.replays import ReplayRequest, advance_replay, find_asked_range, second_cursor

if TYPE_CHECKING:
    from airflow.sdk import Context

START, THROUGH, CURSOR, ROWS_PER_SECOND, DRY_RUN = "start", "through", "cursor", "rows_per_second", "dry_run"
BACKFILL = "backfill"
_CLEARED = "clear_number"


@dataclass(frozen=True)
class Range:
    """The bounds of a replay, as in `relaybox.subscriptions.replays`."""

    start: str
    through: str


def wanted_range(context: Context) -> Range:
    """Returns the interval of a backfill run, else the range of the form."""
    params, run = context["params"], context["dag_run"]
    if run.run_type == BACKFILL:
        if params.get(START) or params.get(THROUGH):
            raise AirflowFailException("A backfill replays the interval of each run. Leave From and To empty.")
        if run.data_interval_start is None or run.data_interval_end is None:
            raise AirflowFailException(f"Run {run.run_id} of a backfill has no data interval, so there is nothing to replay.")
        return Range(run.data_interval_start.isoformat(), run.data_interval_end.isoformat())
    return Range(given(params, START, "From"), str(params.get(THROUGH) or "latest"))


class ReplayCountOperator(RouteOperator):
    """Counts the messages to replay. Changes nothing."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns stream positions, messages, bytes and seconds, for display in XCom, and a table to approve."""
        params, wanted = context["params"], wanted_range(context)
        store, subscription = chosen_store(self.route, params), given(params, SUBSCRIPTION, "Subscription")
        with terminal_errors_fail_at_once(), service_file((store,)):
            to_approve = pin_subscription(store, subscription, self.route.stream)
            counted = subscriptions.replay(
                store,
                subscription,
                wanted.start,
                through=wanted.through,
                reason="dry run",
                second_cursor=True,
                rows_per_second=_rate(params),
                dry_run=True,
            )
        emit(
            "replay_counted",
            subscription=subscription,
            stream_positions=f"{counted.first_stream_position}-{counted.last_stream_position}",
            messages=counted.message_count,
            bytes=counted.byte_count,
            estimated_seconds=counted.estimated_seconds,
        )
        if counted.is_empty:
            emit("replay_empty", subscription=subscription, start=wanted.start, through=wanted.through)
        return {**asdict(counted), **as_xcom(to_approve), "table": _table(store, subscription, to_approve, counted)}


def _table(store: Store, subscription: str, to_approve: PinnedSubscription, counted: subscriptions.Replay) -> str:
    rows = {
        "store": store.name,
        "subscription": describe_pinned(subscription, to_approve),
        "stream positions": f"{counted.first_stream_position} to {counted.last_stream_position}",
        "messages": counted.message_count,
        "bytes": counted.byte_count,
    }
    return "\n".join(["| what | value |", "|---|---|", *(f"| {what} | {cell(value)} |" for what, value in rows.items())])


class ReplayApprovalOperator(PinnedApprovalOperator):
    """Asks for the approval of what was counted. Skips where nothing is to be replayed: a dry run, or an empty range."""

    def execute(self, context: Context) -> Any:
        counted = shown(context, self.shown_by)
        if context["params"].get(DRY_RUN) or counted["last_stream_position"] < counted["first_stream_position"]:
            raise AirflowSkipException("nothing is replayed, so nobody is asked")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any], digest: str | None = None) -> Any:
        """Returns the answer, with how often the run had been cleared: a replay that is cleared later is another replay."""
        answer = super().execute_complete(context, event, digest)
        return answer and {**answer, _CLEARED: context["dag_run"].clear_number}


class ReplayOperator(RouteOperator):
    """Opens a second cursor for the range, and succeeds when its consumers have read it. The live cursor does not move.

    Meanwhile it waits in the triggerer, for as long as its execution_timeout, and holds no slot.
    Safe to kill, clear and run twice: the store records each request. A cleared run reads its range again; a run that is not
    cleared begins one range at most, and fails if that was cancelled.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns how far the range was read. Skips a dry run, and an interval without messages."""
        if context["params"].get(DRY_RUN):
            raise AirflowSkipException("dry run: nothing is replayed")
        ends_at = time.time() + self.execution_timeout.total_seconds() if self.execution_timeout else None
        store, request = chosen_store(self.route, context["params"]), _replay_request(context, self.route)
        with terminal_errors_fail_at_once(), service_file((store,)):
            # Airflow executes a deferred task from its start, and not resume(), if the DAG was not there for a moment
            begun = find_asked_range(store, request)
        return self._advance(context, begun, ends_at)

    def resume(self, context: Context, event: Mapping[str, Any], begun: int | None, ends_at: float | None) -> dict[str, Any]:
        """Continues after the triggerer saw that the cursor moved on: the store is asked, the event is believed in nothing.

        Args:
            context: Airflow's.
            event: of the trigger.
            begun: the range that this replay reads; None: it waited for another one.
            ends_at: when the attempt fails, in seconds since 1970; None: never.
        """
        return self._advance(context, begun, ends_at)

    def _advance(self, context: Context, begun: int | None, ends_at: float | None) -> dict[str, Any]:
        store, request = chosen_store(self.route, context["params"]), _replay_request(context, self.route)
        with terminal_errors_fail_at_once(), service_file((store,)):
            if begun is None:
                if store.require_approval or requires_approval(store):
                    request = _approved(request, context)
                subscriptions.require_of_stream(store, request.subscription, self.route.stream)
            step = advance_replay(store, request, begun)
        if step.is_open:
            self.defer(
                trigger=ReplayTrigger.at(store, request.cursor, step.replay),
                method_name="resume",
                kwargs={"begun": step.replay if step.state == "reads" else None, "ends_at": ends_at},
                timeout=None if ends_at is None else timedelta(seconds=max(0.0, ends_at - time.time())),
            )
        if step.progress is None:
            raise AirflowSkipException(f"store {store.name} delivered no message from {request.start} to {request.through}")
        return {
            "replayed_as": step.progress.replayed_as,
            "first_stream_position": step.progress.first_stream_position,
            "last_stream_position": step.progress.last_stream_position,
            "done_stream_position": step.progress.done_stream_position,
        }


def _replay_request(context: Context, route: Route) -> ReplayRequest:
    params, wanted = context["params"], wanted_range(context)
    subscription = given(params, SUBSCRIPTION, "Subscription")
    return ReplayRequest(
        subscription=subscription,
        start=wanted.start,
        through=wanted.through,
        reason=given(params, REASON, "Reason"),
        cursor=str(params.get(CURSOR) or second_cursor(subscription)),
        asked_by=asker(context),
        rows_per_second=_rate(params),
        on_behalf_of=person(context),
        stream=route.stream,
    )


def _approved(request: ReplayRequest, context: Context) -> ReplayRequest:
    """The request with the subscription and the stream positions that were counted: no more than what the approver saw."""
    counted, who = approved(context, COUNT_TASK_ID)
    if shown(context, APPROVE_TASK_ID)[_CLEARED] != context["dag_run"].clear_number:
        raise AirflowFailException(
            "This run was cleared after its approval, and would read the messages once more. Clear its task approve too: it asks again."
        )
    return replace(
        request,
        start=str(counted["first_stream_position"]),
        through=str(counted["last_stream_position"]),
        pinned=pinned(counted),
        on_behalf_of=f"{request.on_behalf_of}, approved by {who}",
    )


def _rate(params: Mapping[str, Any]) -> int:
    return int(params[ROWS_PER_SECOND])
