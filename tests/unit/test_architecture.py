"""docs/architecture.md is true: its files and functions exist, and the Python of a step calls the SQL of that step."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY, FUNCTIONS = ROOT / "plugins/relaybox", ROOT / "sql/functions"
(DRAWING,) = re.findall(
    r"^```\n(.*?)^```", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
)
STEPS = dict(re.findall(r"^ ([A-Z]+) +(.*?)(?=^ v$)", DRAWING, flags=re.DOTALL | re.MULTILINE))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_way_of_a_message_has_these_steps() -> None:
    assert list(STEPS) == ["SEND", "START", "PLAN", "COPY", "PUBLISH", "DELIVER", "RECEIVED", "FETCH", "ACK", "CONFIRM"]


def test_every_function_that_is_drawn_is_in_its_file() -> None:
    """`hops/planning.py: plan_batch()`; every Python file is named with at least one function or class."""
    drawn = re.findall(r"([\w/]+\.py): ((?:\w+\(\),? ?)+)", DRAWING)
    assert {file for file, _ in drawn} == set(re.findall(r"[\w/]+\.py", DRAWING))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    missing = []
    for file, names in drawn:
        defined = {node.name for node in ast.parse(read(LIBRARY / file)).body if isinstance(node, kinds)}
        missing += [f"{file}: {name}" for name in re.findall(r"\w+", names) if name not in defined]
    assert missing == []


def test_every_table_that_is_drawn_exists() -> None:
    tables = set(
        re.findall(r"create table (?:if not exists )?relaybox\w*\.(\w+)", read(ROOT / "sql/schema.sql"), flags=re.IGNORECASE)
    )
    drawn = set(re.findall(r"\[(\w+)\]", DRAWING))
    assert drawn
    assert drawn - tables == set()


@pytest.mark.parametrize("step", STEPS)
def test_the_python_of_a_step_calls_its_sql(step: str) -> None:
    """Itself, or through another SQL function of the step."""
    functions = {Path(name).stem: FUNCTIONS / name for name in re.findall(r"[\w/]+\.sql", STEPS[step])}
    texts = [read(LIBRARY / name) for name in re.findall(r"[\w/]+\.py", STEPS[step])]
    assert texts
    for name in functions:
        callers = texts + [read(path) for other, path in functions.items() if other != name]
        assert any(re.search(rf"\b{name}\b", text) for text in callers), name


def test_every_name_in_the_drawn_flows_is_in_the_code() -> None:
    """docs/flows.md: names with an underscore are functions, tables, columns or parameters."""
    flows = read(ROOT / "docs/flows.md")
    drawn = set(re.findall(r"\b_?[a-z]+(?:_[a-z]+)+\b", "".join(re.findall(r"```mermaid\n(.*?)```", flows, flags=re.DOTALL))))
    code = "".join(map(read, [*(ROOT / "sql").rglob("*.sql"), *(LIBRARY / "hops").glob("*.py")]))
    assert drawn
    assert {name for name in drawn if re.search(rf"\b{name}\b", code) is None} == set()
