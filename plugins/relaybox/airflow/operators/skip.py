"""The tasks of an approved skip: list the missing messages, and skip them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.approvals import approved, cell
from relaybox.airflow.forms import REASON, asker, given, person
from relaybox.airflow.operators.route_operator import RouteOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.streams.holdback import StoreHoldback, read_holdback
from relaybox.streams.skipping import SkipResult, skip_gap

if TYPE_CHECKING:
    from airflow.sdk import Context

    from relaybox.routes import Route, Routes

SENDER, THROUGH = "sender", "through"


class GapOperator(RouteOperator):
    """Lists the missing messages of a sender at each store, and the last index to skip; skips if none is missing."""

    def __init__(self, *, routes: Routes, route: Route, **kwargs: Any) -> None:
        super().__init__(route=route, **kwargs)
        self.routes = routes

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the epoch and the last index to skip, and a table to approve."""
        params = context["params"]
        sender = given(params, SENDER, "Sender")
        given(params, REASON, "Reason")
        with terminal_errors_fail_at_once(), service_file(dict.fromkeys(self.route.path)):
            found = read_holdback(self.routes, [self.route])
        for store in found:
            if store.error is not None:
                raise store.error
        gap = find_gap(found, sender)
        if gap is None and not params.get(THROUGH):
            raise AirflowSkipException(f"route {self.route.name}: no message waits for a missing message of sender {sender}")
        epoch = gap.epoch if gap else None
        through = int(params.get(THROUGH) or (gap.through if gap else 0))
        table = gap_table(found, sender, epoch, through)
        self.log.info("%s", table)
        return {"epoch": epoch, "through": through, "table": table}


class FoundGap(NamedTuple):
    """The epoch of a sender, and the last index that is missing there."""

    epoch: int
    through: int


def find_gap(found: Iterable[StoreHoldback], sender: str) -> FoundGap | None:
    """Returns the end of the sender's first gap, at the first store that waits; else the newest index that clocks name.

    At a store that holds messages of the sender, what clocks name of it is no gap: it waits there too.
    """
    own, asked = [], []
    for store in found:
        is_held = any(held.sender == sender for held in store.senders)
        own += [
            FoundGap(held.epoch, held.own_gap.last_index)
            for held in store.senders
            if held.sender == sender and held.own_gap is not None
        ]
        asked += [
            FoundGap(cause.epoch, cause.last_index)
            for held in store.senders
            for cause in held.causes
            if cause.sender == sender and not is_held
        ]
    return own[0] if own else max(asked, default=None)


def gap_table(found: Iterable[StoreHoldback], sender: str, epoch: int | None, through: int) -> str:
    """Returns a Markdown table with a row per store."""
    of_epoch = f"of epoch {epoch}" if epoch else "of its epoch"
    rows = [
        f"Skip the missing messages of sender {cell(sender)} up to index {through} {of_epoch}. It can't be undone:",
        "",
        "| store | delivered through | missing | messages that wait |",
        "|---|---|---|---|",
    ]
    for store in found:
        held = next((one for one in store.senders if one.sender == sender), None)
        if held is None:
            rows.append(f"| {store.store} | | no message waits | |")
        else:
            missing = ", ".join(f"{gap.first_index} to {gap.last_index}" for gap in held.missing[:10]) or "none"
            rows.append(f"| {store.store} | {held.delivered_through} | {missing} | {held.held_count} |")
    return "\n".join(rows)


class SkipOperator(RouteOperator):
    """Skips the approved gap at each store. Idempotent: messages that arrived meanwhile are not skipped."""

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Returns the result of each store."""
        params = context["params"]
        with terminal_errors_fail_at_once(), service_file(dict.fromkeys(self.route.path)):
            gap, approved_by = approved(context)
            done = skip_gap(
                self.route,
                given(params, SENDER, "Sender"),
                reason=given(params, REASON, "Reason"),
                recorded_by=f"{person(context)}, approved by {approved_by}: {asker(context)}",
                through=int(gap["through"]),
                epoch=gap.get("epoch"),
            )
            for one in done:
                if one.error is not None:
                    raise one.error
                if one.gap is None:
                    self.log.info("store %s: nothing skipped; %s", one.store, one.why_not)
        return [_returned(one) for one in done]


def _returned(done: SkipResult) -> dict[str, Any]:
    """A result without an error, as JSON."""
    return {name: value for name, value in asdict(done).items() if name != "error"}
