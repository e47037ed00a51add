"""The tasks around an approved skip: what is missing, and giving it up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.approvals import approver, cell, shown
from relaybox.airflow.forms import REASON, asker, given, person
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.streams.holdback import SkipResult, StoreHoldback, read_holdback, skip_gap

if TYPE_CHECKING:
    from airflow.sdk import Context

    from relaybox.routes import Route, Routes

SENDER, THROUGH = "sender", "through"


class GapOperator(BaseOperator):
    """Tells what is missing of a sender at each store, and up to where the run would give up; skips if nothing is missing."""

    def __init__(self, *, routes: Routes, route: Route, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.routes = routes
        self.route = route

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the last index to give up, and a table to approve."""
        params = context["params"]
        sender = given(params, SENDER, "Sender")
        given(params, REASON, "Reason")
        with terminal_errors_fail_at_once(), service_file(dict.fromkeys(self.route.path)):
            found = read_holdback(self.routes, [self.route])
        for here in found:
            if here.error is not None:
                raise here.error
        through = params.get(THROUGH) or end_of_gap(found, sender)
        if through is None:
            raise AirflowSkipException(f"route {self.route.name}: nothing of sender {sender} is missing that anything waits for")
        table = gap_table(found, sender, through)
        self.log.info("%s", table)
        return {"through": through, "table": table}


def end_of_gap(found: Iterable[StoreHoldback], sender: str) -> int | None:
    """The last index of the sender's first gap, at the first store that waits for it; else what others' clocks ask of it."""
    own, asked = [], []
    for here in found:
        for held in here.senders:
            if held.sender == sender and held.missing:
                own.append(held.missing[0].last_index)
            asked += [cause.last_index for cause in held.causes if cause.sender == sender]
    return own[0] if own else max(asked, default=None)


def gap_table(found: Iterable[StoreHoldback], sender: str, through: int) -> str:
    """In Markdown: a row per store."""
    rows = [
        f"Skip the missing messages of sender {cell(sender)} up to index {through}. You cannot undo it:",
        "",
        "| store | delivered through | missing | held behind it |",
        "|---|---|---|---|",
    ]
    for here in found:
        held = next((one for one in here.senders if one.sender == sender), None)
        if held is None:
            rows.append(f"| {here.store} | | nothing waits here | |")
        else:
            missing = ", ".join(f"{gap.first_index} to {gap.last_index}" for gap in held.missing[:10]) or "none of its own"
            rows.append(f"| {here.store} | {held.delivered_through} | {missing} | {held.held_count} |")
    return "\n".join(rows)


class SkipOperator(BaseOperator):
    """Skips the approved gap, store by store. Safe to repeat: messages that arrived meanwhile are not skipped."""

    def __init__(self, *, route: Route, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.route = route

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Returns what was done at each store."""
        params = context["params"]
        with terminal_errors_fail_at_once(), service_file(dict.fromkeys(self.route.path)):
            done = skip_gap(
                self.route,
                given(params, SENDER, "Sender"),
                reason=given(params, REASON, "Reason"),
                recorded_by=f"{person(context)}, approved by {approver(context)}: {asker(context)}",
                through=int(shown(context)["through"]),
            )
            for one in done:
                if one.error is not None:
                    raise one.error
                if one.gap is None:
                    self.log.info("store %s: nothing given up; %s", one.store, one.why_not)
        return [_returned(one) for one in done]


def _returned(done: SkipResult) -> dict[str, Any]:
    """A result without an error, as JSON."""
    return {name: value for name, value in asdict(done).items() if name != "error"}
