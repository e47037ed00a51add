"""docs/requirements.md is complete, and says of each row only what the repository can show."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "requirements.md"
ROW_COUNTS = {"A0": 38, "A1": 23, "A2": 26, "A3": 34, "A4": 19}
CAPABILITIES = ("senders and order", "consumers and replay", "operations")
STATUSES = {"done", "better", "docs", *(f"open: {capability}" for capability in CAPABILITIES)}
PROVEN = {"done", "better"}


@dataclass(frozen=True)
class Row:
    """One line of the table; `tests` are the `path::function` that it names."""

    id: str
    mechanism: str
    status: str
    answer: str
    tests: tuple[str, ...]


@cache
def table() -> tuple[Row, ...]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return tuple(parse_row(line) for line in lines if re.match(r"\|\s*A\d", line))


def parse_row(line: str) -> Row:
    row_id, mechanism, status, answer, tests = (cell.strip() for cell in line.strip().strip("|").split("|"))
    return Row(row_id, mechanism, status, answer, tuple(re.findall(r"`([^`]+)`", tests)))


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Names of the test functions of a file, those in classes as `Class::function`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names |= {f"{owner.name}::{node.name}" for node in owner.body if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in names if name.split("::")[-1].startswith("test_"))


def is_a_test(test: str) -> bool:
    path, _, function = test.partition("::")
    file = ROOT / path
    return path.startswith("tests/") and file.is_file() and function in functions_of(file)


def test_every_requirement_has_one_row_in_order() -> None:
    """Each of the 140 rows is there once, in the order of the originals."""
    expected = [f"{group}.{number}" for group, count in ROW_COUNTS.items() for number in range(1, count + 1)]
    assert [row.id for row in table()] == expected


def test_every_row_is_answered() -> None:
    """Each row names its mechanism, an allowed status and an answer."""
    incomplete = [row.id for row in table() if not row.mechanism or not row.answer or row.status not in STATUSES]
    assert incomplete == []


def test_what_is_built_names_a_test() -> None:
    """A row that says `done` or `better` says which test holds it."""
    assert [row.id for row in table() if row.status in PROVEN and not row.tests] == []


def test_every_named_test_exists() -> None:
    """A test that the table names is a function of that file."""
    missing = [f"{row.id} {test}" for row in table() for test in row.tests if not is_a_test(test)]
    assert missing == []


def test_summary_counts_are_the_counts_of_the_rows() -> None:
    """The summary above the table is counted, not believed."""
    by_status = Counter(row.status.partition(":")[0] for row in table())
    by_capability = Counter(row.status.partition(": ")[2] for row in table())
    counts = ", ".join(f"{by_status[status]} {status}" for status in ("done", "better", "docs", "open"))
    waiting = ", ".join(f"{by_capability[capability]} {capability}" for capability in CAPABILITIES)
    assert f"**{len(table())} rows: {counts}** ({waiting})." in TABLE.read_text(encoding="utf-8").splitlines()
