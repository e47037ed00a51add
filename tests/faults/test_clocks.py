"""No decision uses a clock, so a clock that steps can change none (K17). Clocks are read to be shown, and nowhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import relaybox
from relaybox.schema import sql_directory

LIBRARY = Path(relaybox.__file__).parent

SHOWN = {
    "sending_state.sql": "the age of the oldest waiting message, for the status",
    "status.py": "when the status was measured",
    "verification.py": "when the stores were compared",
}
"""Where a clock is read only to be shown, and what is shown."""

SQL_CLOCK = re.compile(
    r"\b(now\(\)|(clock|statement|transaction)_timestamp\(\)|timeofday\(\)|current_(date|time|timestamp)|localtime)",
    re.IGNORECASE,
)
PYTHON_CLOCKS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
"""time.monotonic() is no wall clock: deadlines and durations only."""


def without_comments(path: Path) -> str:
    return re.sub(r"--.*", "", path.read_text())


def reads_wall_clock(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in PYTHON_CLOCKS
        for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.mark.parametrize(
    "path", sorted([*sql_directory().glob("functions/*.sql"), *sql_directory().glob("views/*.sql")]), ids=lambda path: path.name
)
def test_no_function_of_the_protocol_reads_a_clock(path: Path) -> None:
    """Times are column defaults: written once, never compared."""
    assert bool(SQL_CLOCK.search(without_comments(path))) == (path.name in SHOWN)


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.py")), ids=lambda path: path.name)
def test_no_module_of_the_core_reads_a_wall_clock(path: Path) -> None:
    assert reads_wall_clock(path) == (path.name in SHOWN)
