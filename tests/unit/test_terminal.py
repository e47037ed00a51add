"""The terminal output of commands: every text goes through one of two places, which show what a store's names hold and obey none of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaybox.cli.terminal.tables import new_table, open_console, styled

CLI = Path(__file__).parents[2] / "plugins" / "relaybox" / "cli"
OWN = ("printable.py", "terminal/tables.py", "__init__.py")
FORBIDDEN = ("print", "echo", "secho", "Console", "from_markup", "render_markup", "print_exception")

HOSTILE, SHOWN = "[/x] [red]:car:\x1b[2J\u202e", "[/x] [red]:car:\\x1b[2J\\u202e"


def test_every_text_of_a_command_goes_through_the_console_or_print_text() -> None:
    """JSON is written by itself: it has its own escapes. What tells that packages are missing can use none."""
    paths = [path for path in sorted(CLI.rglob("*.py")) if str(path.relative_to(CLI)) not in OWN]
    assert len(paths) > 30
    assert [call for path in paths for call in _forbidden_calls(path)] == []


def _forbidden_calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            is_of_console = name == "print" and isinstance(node.func, ast.Attribute)
            is_json = ast.unparse(node).startswith(("print(json.dumps(", "print(json_line("))
            if name in FORBIDDEN and not is_of_console and not is_json:
                yield f"{path.name}, line {node.lineno}: {name}"


def test_a_hostile_name_is_shown_whole_in_a_line_and_in_a_narrow_cell(capsys: pytest.CaptureFixture[str]) -> None:
    """An escape is as wide as it is shown: a cell is measured by that, and cuts none of it off."""
    console = open_console()
    console.print(HOSTILE)
    console.print(styled((HOSTILE, "bold"), " and ", HOSTILE))
    table = new_table("name", "again")
    table.add_row(HOSTILE, styled((HOSTILE, "red")))
    console.print(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [SHOWN, f"{SHOWN} and {SHOWN}"]
    assert lines[3].split() == [*SHOWN.split(), *SHOWN.split()]
