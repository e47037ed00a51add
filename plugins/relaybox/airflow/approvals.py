"""Actions that a person approves before they run: show, approve, run. Whoever marks the approval as a success approves nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskAwaitingInput
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

from relaybox.airflow.naming import APPROVE_TASK_ID, SHOW_TASK_ID
from relaybox.subscriptions.approvals import PinnedSubscription

if TYPE_CHECKING:
    from airflow.sdk import Context

PATIENCE = timedelta(days=1)
"""How long an action waits for its approval; no answer rejects it."""


UNKNOWN_USER = "unknown user"
"""Of whom Airflow does not know the name."""

_DIGEST = "digest"
_ESTIMATED = ("estimated_seconds",)
"""What is shown, but differs from one look at the same store to the next."""


class PinnedApprovalOperator(ApprovalOperator):
    """Asks for the approval of what the task `shown_by` found, and returns the answer with the digest of what was shown.

    Airflow keeps the text of a question as long as the run: a question that is asked again has the text of the first one. So a
    question of anything else is refused.
    """

    def __init__(self, *, shown_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shown_by = shown_by

    def execute(self, context: Context) -> Any:
        found = shown(context, self.shown_by)
        digest = digest_shown(found)
        self.body = f"{found['table']}\n\nDigest of what is to be approved: {digest}"
        recorded = self._record_question(context)
        if (recorded.subject, recorded.body) != (self.subject, self.body):
            raise AirflowFailException(
                f"The task {self.shown_by} was cleared, and found something else than before. Airflow would still ask with the first "
                "text. Nobody was asked. Trigger a new run, and approve that one."
            )
        try:
            return super().execute(context)
        except TaskAwaitingInput as waiting:
            waiting.kwargs = {**(waiting.kwargs or {}), _DIGEST: digest}
            raise

    def execute_complete(self, context: Context, event: dict[str, Any], digest: str | None = None) -> Any:
        """Returns the answer, with the digest of what the question showed. A rejection skips the next tasks, and is kept all the same."""
        try:
            answer = super().execute_complete(context, event)
        except DownstreamTasksSkipped:  # so Airflow's operator ends after a rejection: without a result
            kept = {"chosen_options": event["chosen_options"], "responded_by_user": event["responded_by_user"], _DIGEST: digest}
            context["ti"].xcom_push(key="return_value", value=kept)
            raise
        return answer and {**answer, _DIGEST: digest}

    def _record_question(self, context: Context) -> Any:
        """Records the question as Airflow's operator does, which returns nothing. Returns the one that Airflow has."""
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS  # Airflow makes it when a task starts

        return SUPERVISOR_COMMS.send(
            CreateHITLDetailPayload(
                ti_id=context["task_instance"].id,
                options=self.options,
                subject=self.subject,
                body=self.body,
                defaults=self.defaults,
                params=self.serialized_params,
                multiple=self.multiple,
                assigned_users=[],
            )
        )


def approval(
    subject: str,
    *,
    pool: str,
    shown_by: str = SHOW_TASK_ID,
    operator: type[PinnedApprovalOperator] = PinnedApprovalOperator,
) -> PinnedApprovalOperator:
    """Waits for a person, with what the task `shown_by` found before them. Takes no slot while it waits.

    It has the route's retries: after a worker that is lost, before the question or after the answer, it asks again.
    """
    return operator(
        task_id=APPROVE_TASK_ID,
        shown_by=shown_by,
        subject=subject,
        defaults=ApprovalOperator.REJECT,
        response_timeout=PATIENCE,
        pool=pool,
    )


def digest_shown(found: Mapping[str, Any]) -> str:
    """Returns the digest of what a task has shown, without estimates."""
    told = {name: value for name, value in found.items() if name not in _ESTIMATED}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:32]


def cell(value: object) -> str:
    """Escapes a value for a Markdown table: names of senders may contain markup."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", "" if value is None else " ".join(str(value).split()))


def shown(context: Context, task_id: str = SHOW_TASK_ID) -> Mapping[str, Any]:
    """Returns what the task has found, which need not be what was approved: see approved(). Fails for good if there is nothing."""
    found: Mapping[str, Any] | None = context["ti"].xcom_pull(task_ids=task_id)
    if found is None:
        raise AirflowFailException(
            f"The task {task_id} has no result: it was cleared and found nothing or runs again, or was marked as a success. "
            "Nothing was done. Trigger a new run."
        )
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


class Approved(NamedTuple):
    """What was approved, exactly that is done; and the Airflow user who approved it."""

    shown: Mapping[str, Any]
    by: str


def approved(context: Context, shown_by: str = SHOW_TASK_ID) -> Approved:
    """Returns what was approved. Fails the task for good if nobody approved, or if something else was found since the question."""
    answer = _answer(context)
    if ApprovalOperator.APPROVE not in answer.get("chosen_options", ()):
        raise AirflowFailException(
            "This run has no approval: its approve task is missing, or was marked as a success. A replay has the task if relaybox.yaml "
            "says require_approval: true for one of its stores: write that, run relaybox init, and wait until Airflow has read the "
            "file again. Then trigger a new run, and approve it under Required Actions."
        )
    found = shown(context, shown_by)
    if answer.get(_DIGEST) != digest_shown(found):
        raise AirflowFailException(
            f"What the task {shown_by} has found is not what was approved: the task was cleared since, or an earlier version of Relaybox "
            "has asked. Nothing was done. Trigger a new run, and approve that one."
        )
    return Approved(found, _answered_by(answer) or UNKNOWN_USER)


class Rejected(NamedTuple):
    """What was rejected; and the Airflow user who rejected it. None: nobody answered in time, which rejects too."""

    shown: Mapping[str, Any]
    by: str | None


def rejected(context: Context) -> Rejected | None:
    """Returns what was rejected; None: it was approved. Fails the task for good if nobody was asked, or if something else is shown now."""
    answer = _answer(context)
    chosen = answer.get("chosen_options", ())
    if ApprovalOperator.APPROVE in chosen:
        return None
    found = shown(context, SHOW_TASK_ID)
    if ApprovalOperator.REJECT not in chosen or answer.get(_DIGEST) != digest_shown(found):
        raise AirflowFailException(
            f"What the task {SHOW_TASK_ID} has found was not rejected: its approve task was marked as skipped or as a success, or the "
            "task was cleared since. Nothing was done."
        )
    return Rejected(found, _answered_by(answer))


def _answer(context: Context) -> Mapping[str, Any]:
    """Returns what the approve task returned; nothing if it did not run to its end."""
    answer: Mapping[str, Any] = context["ti"].xcom_pull(task_ids=APPROVE_TASK_ID) or {}
    return answer


def _answered_by(answer: Mapping[str, Any]) -> str | None:
    """Returns the user; None: nobody answered in time."""
    user = answer.get("responded_by_user")
    if user is None:
        return None
    name = user.get("name") if isinstance(user, Mapping) else getattr(user, "name", None)
    return str(name or UNKNOWN_USER)
