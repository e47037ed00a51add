"""docs/airflow-actions.md has every cell that is tested, and no other."""

from __future__ import annotations

from pathlib import Path

from tests.airflow.action_cells import ACTIONS, CELLS, STATES, author_table, init_table, table

DOCUMENT = Path(__file__).parents[2] / "docs" / "airflow-actions.md"


def test_the_table_of_airflow_actions_is_the_list_of_cells() -> None:
    """At least thirty; the lines that begin with | are its table, and that of the tasks of DAG authors."""
    written = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert written == [*table().splitlines(), *author_table().splitlines(), *init_table().splitlines()]
    assert len(CELLS) >= 30
    assert {action for action, _ in CELLS} == set(ACTIONS)
    assert {state for _, state in CELLS} == set(STATES)
