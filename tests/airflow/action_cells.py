"""What people and accidents do to a transfer in Airflow, in whatever state it is, and what becomes of it: the table of docs/airflow-actions.md."""

from __future__ import annotations

STATES = {
    "planning": "before it plans",
    "copying": "while it copies",
    "confirming": "arrived, not confirmed",
    "lingering": "between batches",
    "done": "run succeeded",
    "failed": "run failed, a batch is left",
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
    "lingering": "ended; the next run moves what comes",
}

EFFECTS: dict[str, dict[str, str]] = {
    "clear": {
        **dict.fromkeys(RUNNING, "ended and run again: it resumes the batch"),
        "lingering": "ended and run again: it moves what comes",
        "done": "runs again: moves what is there, or is skipped",
        "failed": "runs again: resumes the batch",
    },
    "retry": {
        **dict.fromkeys(RUNNING, "Airflow runs it again: it resumes the batch"),
        "lingering": "Airflow runs it again: it moves what comes",
    },
    "mark_failed": {
        **_ENDED,
        "done": "a word in Airflow only",
        "failed": "Airflow refuses: it is; the watch starts a run, which resumes the batch",
    },
    "mark_success": {
        **_ENDED,
        "done": "Airflow refuses: it is",
        "failed": "a word in Airflow only; the next run resumes the batch",
    },
    "delete_run": {
        **_ENDED,
        "done": "its history is gone from Airflow, from the stores nothing",
        "failed": "the next run resumes the batch",
    },
    "pause": {
        **dict.fromkeys(RUNNING, "what runs ends well; messages wait until it is unpaused"),
        "done": "messages wait until it is unpaused",
        "failed": "the batch waits until it is unpaused",
    },
    "backfill": dict.fromkeys(STATES, "Airflow refuses: a transfer has no intervals"),
    "two_runs": {
        **dict.fromkeys(RUNNING, "they wait, then move what is left or are skipped"),
        "done": "one after the other; the second is skipped",
        "failed": "the first resumes the batch; the second is skipped",
    },
    "kill_scheduler": {
        **dict.fromkeys(RUNNING, "the task goes on; the next scheduler takes it over"),
        "done": "nothing; the next scheduler starts what waits",
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
