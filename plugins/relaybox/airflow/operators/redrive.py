"""The tasks of an approved redrive: list the dead letters, and redrive the approved ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.approvals import approved, as_xcom, cell, describe_pinned, pinned
from relaybox.airflow.forms import REASON, SUBSCRIPTION, chosen_store, given, person
from relaybox.airflow.operators.route_operator import RouteOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.subscriptions.approvals import pin_subscription
from relaybox.subscriptions.dead_letters import DeadLetter, list_dead_letters
from relaybox.subscriptions.redriving import redrive_dead_letters
from relaybox.subscriptions.subscriptions import require_of_stream

if TYPE_CHECKING:
    from airflow.sdk import Context


DEAD_LETTER_ID = "dead_letter_id"
MAX_DEAD_LETTERS = 1000


class DeadLettersOperator(RouteOperator):
    """Lists the open dead letters of the form; skips if there are none."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the numbers of the dead letters and a table to approve. Only the page shows payloads."""
        params = context["params"]
        store, subscription = chosen_store(self.route, params), given(params, SUBSCRIPTION, "Subscription")
        given(params, REASON, "Reason")
        with terminal_errors_fail_at_once(), service_file((store,)):
            to_approve = pin_subscription(store, subscription, self.route.stream)
            listed = list_dead_letters(
                store,
                subscription=subscription,
                stream=self.route.stream,  # an ended subscription of this name may have read another
                states=("open",),
                limit=MAX_DEAD_LETTERS,
                payload_characters=0,
            )
        dead_letters = [dead_letter for dead_letter in listed if params.get(DEAD_LETTER_ID) in (None, dead_letter.dead_letter_id)]
        if not dead_letters:
            raise AirflowSkipException(f"store {store.name}: subscription {subscription} has no such open dead letter")
        whose = f"Store {cell(store.name)}, subscription {cell(describe_pinned(subscription, to_approve))}:"
        table = f"{whose}\n\n{dead_letters_table(dead_letters)}"
        self.log.info("%s", table)
        return {
            **as_xcom(to_approve),
            "dead_letter_ids": [dead_letter.dead_letter_id for dead_letter in dead_letters],
            "attempts": [dead_letter.attempts for dead_letter in dead_letters],
            "table": table,
        }


def dead_letters_table(dead_letters: Sequence[DeadLetter]) -> str:
    """Returns a Markdown table, in the order of stream positions."""
    rows = ["| dead letter | message | sender | reason | attempts | since |", "|---|---|---|---|---|---|"]
    for dead_letter in sorted(dead_letters, key=lambda dead_letter: dead_letter.stream_position or 0):
        columns = (
            dead_letter.dead_letter_id,
            dead_letter.message_id,
            dead_letter.sender,
            dead_letter.reason,
            dead_letter.attempts,
            f"{dead_letter.first_at:%Y-%m-%d %H:%M}",
        )
        rows.append(f"| {' | '.join(map(cell, columns))} |")
    return "\n".join(rows)


class RedriveOperator(RouteOperator):
    """Redrives the approved dead letters, and no newer ones. Idempotent.

    A dead letter that is no longer open, or that was refused again since the approval, is passed over and
    named in the log. Skips if all are passed over.
    """

    def execute(self, context: Context) -> dict[str, int]:
        """Returns the number of redriven dead letters, including those that waited behind them."""
        params = context["params"]
        store, subscription = chosen_store(self.route, params), given(params, SUBSCRIPTION, "Subscription")
        with terminal_errors_fail_at_once(), service_file((store,)):
            require_of_stream(store, subscription, self.route.stream)
            letters, approved_by = approved(context)
            result = redrive_dead_letters(
                store,
                subscription,
                dict(zip(letters["dead_letter_ids"], letters["attempts"], strict=True)),
                reason=given(params, REASON, "Reason"),
                on_behalf_of=f"{person(context)}, approved by {approved_by}",
                pinned=pinned(letters),
            )
        for dead_letter_id, why in result.passed_over.items():
            self.log.warning(
                "store %s: dead letter %s of subscription %s %s; it was not redriven",
                store.name,
                dead_letter_id,
                subscription,
                why,
            )
        if not result.redriven:
            raise AirflowSkipException(
                f"store {store.name}: subscription {subscription}: none of the approved dead letters was redriven"
            )
        return {"redriven": result.redriven}
