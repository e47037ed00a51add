"""A table of `relaybox bench` says by itself what each column is, and which values are good."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import relaybox.local.bench

MODULES = sorted(Path(relaybox.local.bench.__file__).parent.glob("*.py"))
PRINTING = {
    "adopt",
    "consume",
    "frames",
    "growth",
    "latency_report",
    "loops",
    "order",
    "page",
    "produce",
    "report",
    "retention",
    "singles",
    "sinks",
    "steady_report",
    "waiting",
    "workers",
}


def tables(module: Path) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Table"
    ]


def test_these_modules_print_tables() -> None:
    assert {module.stem for module in MODULES if tables(module)} == PRINTING


@pytest.mark.parametrize("name", sorted(PRINTING))
def test_each_column_has_a_label_and_each_table_says_what_is_good(name: str) -> None:
    (module,) = [module for module in MODULES if module.stem == name]
    for table in tables(module):
        assert [column for column in table.args if isinstance(column, ast.Constant) and not column.value] == []
        (caption,) = [word.value for word in table.keywords if word.arg == "caption"]
        assert any(says in ast.unparse(caption) for says in ("Good: ", "better", "faster"))
