"""The table of docs/airflow-actions.md: actions and accidents in Airflow, the states of a transfer, and the effect of each."""

from __future__ import annotations

STATES = {
    "planning": "before the plan",
    "copying": "while copying",
    "confirming": "arrived, not confirmed",
    "lingering": "between batches",
    "done": "run succeeded",
    "failed": "run failed, batch unfinished",
}
"""Columns: where the task of the first hop is."""

RUNNING = ("planning", "copying", "confirming", "lingering")

ACTIONS = {
    "clear": "clear the task",
    "retry": "kill its process",
    "mark_failed": "mark it failed",
    "mark_success": "mark it success",
    "delete_run": "fail and delete the run",
    "pause": "pause and unpause the DAG",
    "backfill": "backfill the DAG",
    "two_runs": "trigger two more runs",
    "kill_scheduler": "kill the scheduler",
}
"""Rows."""

_ENDED = {
    **dict.fromkeys(RUNNING, "ended; the next run resumes the batch"),
    "lingering": "ended; the next run moves new messages",
}

EFFECTS: dict[str, dict[str, str]] = {
    "clear": {
        **dict.fromkeys(RUNNING, "ended and run again: it resumes the batch"),
        "lingering": "ended and run again: it moves new messages",
        "done": "runs again: moves waiting messages, or is skipped",
        "failed": "runs again: resumes the batch",
    },
    "retry": {
        **dict.fromkeys(RUNNING, "Airflow runs it again: it resumes the batch"),
        "lingering": "Airflow runs it again: it moves new messages",
    },
    "mark_failed": {
        **_ENDED,
        "done": "only the state in Airflow changes",
        "failed": "Airflow refuses: it has failed already; the watch starts a run, which resumes the batch",
    },
    "mark_success": {
        **_ENDED,
        "done": "Airflow refuses: it has succeeded already",
        "failed": "only the state in Airflow changes; the next run resumes the batch",
    },
    "delete_run": {
        **_ENDED,
        "done": "its history is removed from Airflow; the stores do not change",
        "failed": "the next run resumes the batch",
    },
    "pause": {
        **dict.fromkeys(RUNNING, "the run succeeds; then messages wait until it is unpaused"),
        "done": "messages wait until it is unpaused",
        "failed": "the batch waits until it is unpaused",
    },
    "backfill": dict.fromkeys(STATES, "Airflow refuses: a transfer has no intervals"),
    "two_runs": {
        **dict.fromkeys(RUNNING, "they wait, then move the remaining messages or are skipped"),
        "done": "they run one after the other; the second one is skipped",
        "failed": "the first one resumes the batch; the second one is skipped",
    },
    "kill_scheduler": {
        **dict.fromkeys(RUNNING, "the task goes on; the next scheduler takes it over"),
        "done": "no effect; the next scheduler starts a run when messages wait",
        "failed": "the next scheduler starts a run, which resumes the batch",
    },
}
"""Every cell is a test: tests/airflow/actions.py, run by `make test-airflow-actions`."""

CELLS = [(action, state) for action, effects in EFFECTS.items() for state in effects]


def table() -> str:
    """In Markdown."""
    rows = [f"| | {' | '.join(STATES.values())} |", "|---|" + "---|" * len(STATES)]
    rows += [
        f"| **{title}** | {' | '.join(EFFECTS[action].get(state, '-') for state in STATES)} |"
        for action, title in ACTIONS.items()
    ]
    return "\n".join(rows)
