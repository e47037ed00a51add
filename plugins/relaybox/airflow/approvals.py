"""Actions that a person approves before they run: show, approve, run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from relaybox.airflow.naming import APPROVE_TASK_ID, SHOW_TASK_ID

if TYPE_CHECKING:
    from airflow.sdk import Context

PATIENCE = timedelta(days=1)
"""How long an action waits for its approval; no answer rejects it."""


def approval(subject: str, *, pool: str) -> ApprovalOperator:
    """Waits for a person, with what `show` found before them. Takes no slot while it waits.

    It has the route's retries: after a worker that is lost, before the question or after the answer, it asks again.
    """
    return ApprovalOperator(
        task_id=APPROVE_TASK_ID,
        subject=subject,
        body=f"{{{{ ti.xcom_pull(task_ids='{SHOW_TASK_ID}')['table'] }}}}",
        defaults=ApprovalOperator.REJECT,
        response_timeout=PATIENCE,
        pool=pool,
    )


def cell(value: object) -> str:
    """Escapes a value for a Markdown table: names of senders may contain markup."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", "" if value is None else " ".join(str(value).split()))


def shown(context: Context) -> Mapping[str, Any]:
    """Returns what was approved; exactly that is done."""
    found: Mapping[str, Any] = context["ti"].xcom_pull(task_ids=SHOW_TASK_ID)
    return found


def approver(context: Context) -> str:
    """Returns the Airflow user who approved."""
    answer = context["ti"].xcom_pull(task_ids=APPROVE_TASK_ID) or {}
    user = answer.get("responded_by_user")
    name = user.get("name") if isinstance(user, Mapping) else getattr(user, "name", None)
    return str(name or "unknown user")
