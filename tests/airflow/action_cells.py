"""The table of docs/airflow-actions.md: actions and accidents in Airflow, the states of a transfer, and the effect of each."""

from __future__ import annotations

from collections.abc import Mapping

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

AUTHOR_STATES = {
    "put_open": "put: before its COMMIT",
    "put_committed": "put: after its COMMIT",
    "consume_handling": "consume: in the handler",
    "consume_committed": "consume: between messages",
    "ended": "task ended",
}
"""Columns of the second table: where the task of a DAG author is."""

_SENDS_NOTHING, _GOES_ON = "sends nothing: it was sent", "handles the messages without acknowledgement"

AUTHOR_EFFECTS: dict[str, dict[str, str]] = {
    "clear": {
        "put_open": "ended and run again: it sends",
        "put_committed": f"ended and run again: {_SENDS_NOTHING}",
        "consume_handling": f"ended and run again: {_GOES_ON}",
        "consume_committed": f"ended and run again: {_GOES_ON}",
        "ended": "put sends nothing; consume handles what waits now",
    },
    "retry": {
        "put_open": "Airflow runs it again: it sends",
        "put_committed": f"Airflow runs it again: {_SENDS_NOTHING}",
        "consume_handling": f"its work is undone; Airflow runs it again: {_GOES_ON}",
        "consume_committed": f"Airflow runs it again: {_GOES_ON}",
    },
    "mark_failed": {
        "put_open": "nothing is sent",
        "put_committed": "the messages stay sent",
        "consume_handling": "the message is finished; the others wait for the next run",
        "consume_committed": "the others wait for the next run",
        "ended": "only the state in Airflow changes",
    },
    "mark_success": {
        "put_open": "nothing is sent",
        "put_committed": "the messages stay sent",
        "consume_handling": "the message is finished; the others wait for the next run",
        "consume_committed": "the others wait for the next run",
        "ended": "only the state in Airflow changes",
    },
    "two_runs": {
        **dict.fromkeys(("put_open", "put_committed"), "each run sends its own messages"),
        **dict.fromkeys(("consume_handling", "consume_committed"), "they share the lanes; each message is handled by one"),
        "ended": "each run sends its own messages, or handles what waits",
    },
}
"""Every cell is a test: tests/airflow/author_actions.py, run by `make test-airflow-actions`."""

INIT_STATES = {
    "asked": "the question is open",
    "open": "init: before its COMMIT",
    "committed": "init: after its COMMIT",
    "ended": "run succeeded",
}
"""Columns of the third table: where a run of relaybox_init is."""

INIT_ACTIONS = {
    "reject": "reject",
    "edit": "edit relaybox.yaml, approve",
    "clear_show": "clear `show`, approve",
    "edit_and_clear_show": "edit relaybox.yaml, clear `show`, approve",
    "clear": "clear `init`",
    "retry": "kill the process of `init`",
    "mark_failed": "mark the task failed",
    "mark_success": "mark the task success",
}
"""Its rows. The task is `approve` while the question is open, then `init`."""

INIT_EFFECTS: dict[str, dict[str, str]] = {
    "reject": {"asked": "nothing changes"},
    "edit": {"asked": "`init` refuses: trigger a new run"},
    "clear_show": {"asked": "the same plan: `init` does it", "ended": "`show` is skipped: nothing is left to do"},
    "edit_and_clear_show": {"asked": "another plan: `init` refuses; trigger a new run"},
    "clear": {
        "open": "ended and run again: does what was approved",
        "committed": "ended and run again: does what is left",
        "ended": "changes nothing",
    },
    "retry": {
        "open": "Airflow runs it again: does what was approved",
        "committed": "Airflow runs it again: does what is left",
    },
    "mark_failed": {
        "asked": "nothing changes",
        "open": "the store does not change; clear `init` to go on",
        "committed": "the store is changed",
        "ended": "only the state in Airflow changes",
    },
    "mark_success": {
        "asked": "`init` fails: nobody approved",
        "open": "the store does not change; clear `init` to go on",
        "committed": "the store is changed",
        "ended": "Airflow refuses: it has succeeded already",
    },
}
"""Every cell is a test: tests/airflow/init_actions.py, run by `make test-airflow-actions`."""

CELLS = [(action, state) for action, effects in EFFECTS.items() for state in effects]


def table() -> str:
    """In Markdown."""
    return _table(STATES, ACTIONS, EFFECTS)


def author_table() -> str:
    """The same of the tasks of DAG authors."""
    return _table(AUTHOR_STATES, ACTIONS, AUTHOR_EFFECTS)


def init_table() -> str:
    """The same of the DAG relaybox_init."""
    return _table(INIT_STATES, INIT_ACTIONS, INIT_EFFECTS)


def _table(states: Mapping[str, str], actions: Mapping[str, str], effects: Mapping[str, Mapping[str, str]]) -> str:
    rows = [f"| | {' | '.join(states.values())} |", "|---|" + "---|" * len(states)]
    rows += [
        f"| **{title}** | {' | '.join(effects[action].get(state, '-') for state in states)} |"
        for action, title in actions.items()
        if action in effects
    ]
    return "\n".join(rows)
