"""Actions that a person approves before they run: show, approve, run. Whoever marks the approval as a success approves nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from relaybox.airflow.naming import APPROVE_TASK_ID, SHOW_TASK_ID
from relaybox.subscriptions.approvals import PinnedSubscription

if TYPE_CHECKING:
    from airflow.sdk import Context

PATIENCE = timedelta(days=1)
"""How long an action waits for its approval; no answer rejects it."""


def approval(
    subject: str, *, pool: str, shown_by: str = SHOW_TASK_ID, operator: type[ApprovalOperator] = ApprovalOperator
) -> ApprovalOperator:
    """Waits for a person, with what the task `shown_by` found before them. Takes no slot while it waits.

    It has the route's retries: after a worker that is lost, before the question or after the answer, it asks again.
    """
    return operator(
        task_id=APPROVE_TASK_ID,
        subject=subject,
        body=f"{{{{ ti.xcom_pull(task_ids='{shown_by}')['table'] }}}}",
        defaults=ApprovalOperator.REJECT,
        response_timeout=PATIENCE,
        pool=pool,
    )


def cell(value: object) -> str:
    """Escapes a value for a Markdown table: names of senders may contain markup."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", "" if value is None else " ".join(str(value).split()))


def shown(context: Context, task_id: str = SHOW_TASK_ID) -> Mapping[str, Any]:
    """Returns what was approved; exactly that is done."""
    found: Mapping[str, Any] = context["ti"].xcom_pull(task_ids=task_id)
    return found


def as_xcom(pinned: PinnedSubscription) -> dict[str, Any]:
    """Returns the subscription that is to be approved, as pinned() reads it."""
    return {"subscription_id": pinned.subscription_id, "subscribed_at": pinned.subscribed_at.isoformat()}


def pinned(shown_before: Mapping[str, Any]) -> PinnedSubscription:
    """Returns the subscription that was approved. Fails the task for good if a version of before, which did not say, has shown it."""
    try:
        return PinnedSubscription(int(shown_before["subscription_id"]), datetime.fromisoformat(shown_before["subscribed_at"]))
    except KeyError as error:
        raise AirflowFailException(
            "What was approved does not say which subscription it was: an earlier version of Relaybox has shown it. "
            "Trigger a new run, and approve that one."
        ) from error


def describe_pinned(subscription: str, pinned_: PinnedSubscription) -> str:
    """Returns the subscription for a table to approve."""
    return f"{subscription} (number {pinned_.subscription_id}, since {pinned_.subscribed_at:%Y-%m-%d %H:%M})"


def approver(context: Context) -> str:
    """Returns the Airflow user who approved. Fails the task for good if nobody did."""
    answer = context["ti"].xcom_pull(task_ids=APPROVE_TASK_ID) or {}
    if ApprovalOperator.APPROVE not in answer.get("chosen_options", ()):
        raise AirflowFailException(
            "This run has no approval: its approve task is missing, or was marked as a success. A replay has the task if relaybox.yaml "
            "says require_approval: true for one of its stores: write that, run relaybox init, and wait until Airflow has read the "
            "file again. Then trigger a new run, and approve it under Required Actions."
        )
    user = answer.get("responded_by_user")
    name = user.get("name") if isinstance(user, Mapping) else getattr(user, "name", None)
    return str(name or "unknown user")
