"""Answers of an approver, as the approve task returns them: with the digest of what its question showed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import DownstreamTasksSkipped, TaskAwaitingInput
from airflow.sdk.execution_time import task_runner

from relaybox.airflow.approvals import digest_shown
from relaybox.airflow.naming import APPROVE_TASK_ID, COUNT_TASK_ID, SHOW_TASK_ID

APPROVED = {"chosen_options": ["Approve"], "responded_by_user": {"id": "2", "name": "grace"}}


def answered(pulled: Mapping[str, Any], kind: str = "") -> dict[str, Any]:
    """The XComs of a run, with the digest of what is shown in an answer that has none."""
    answer = pulled.get(APPROVE_TASK_ID)
    found = pulled.get(COUNT_TASK_ID if kind == "replay" else SHOW_TASK_ID)
    if answer and found and "digest" not in answer:
        answer = {**answer, "digest": digest_shown(found)}
    return {**pulled, APPROVE_TASK_ID: answer}


class Questions:
    """What Airflow keeps of the question of a run: the first text, through clears and retries (upsert_hitl_detail)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.first: Any = None
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", self, raising=False)

    def send(self, msg: Any) -> Any:
        self.first = self.first or msg
        return self.first

    def ask(self, approve: Any, context: Any) -> TaskAwaitingInput:
        """The task waits for its answer."""
        with pytest.raises(TaskAwaitingInput) as waiting:
            approve.execute(context)
        return waiting.value

    def approve(self, approve: Any, context: Any, waiting: TaskAwaitingInput, responded_at: Any) -> Any:
        """What the task returns after a person approved."""
        return self._resume(approve, context, waiting, {**APPROVED, "responded_at": responded_at})

    def reject(self, approve: Any, context: Any, waiting: TaskAwaitingInput, responded_at: Any, by: object) -> list[str]:
        """The tasks that the task skips after a rejection."""
        answer = {"chosen_options": ["Reject"], "responded_by_user": by, "responded_at": responded_at}
        with pytest.raises(DownstreamTasksSkipped) as skipped:
            self._resume(approve, context, waiting, answer)
        return [str(task) for task in skipped.value.tasks]

    def _resume(self, approve: Any, context: Any, waiting: TaskAwaitingInput, answer: Mapping[str, Any]) -> Any:
        event = {**answer, "params_input": {}}
        kwargs = {**(waiting.kwargs or {}), "event": event}
        assert isinstance(approve, ApprovalOperator)
        return approve.resume_execution(next_method=waiting.method_name, next_kwargs=kwargs, context=context)
