"""Literals in our SQL mean the same whatever standard_conforming_strings is in the session that runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

SQL = Path(__file__).parents[2] / "sql"
FILES = sorted(path for folder in ("functions", "views") for path in (SQL / folder).rglob("*.sql"))
LITERAL = re.compile(
    r"--[^\n]*|(?P<quote>\$\w+\$).*?(?P=quote)|(?P<escapes>[eE]?)'(?P<text>(?:[^'\\]|''|\\.|'[ \t]*\n(?:\s*--[^\n]*\n)*\s*')*)'",
    re.DOTALL,
)


def test_a_literal_with_a_backslash_says_that_it_escapes() -> None:
    """A database that sets standard_conforming_strings off would read another text: init named false defects of tables."""
    assert len(FILES) > 300
    found = {path.name: [text for text in plain_literals(path) if "\\" in text] for path in FILES}
    assert {name: texts for name, texts in found.items() if texts} == {}


def plain_literals(path: Path) -> Iterator[str]:
    body = path.read_text(encoding="utf-8").replace("$$", "")
    return (literal["text"] for literal in LITERAL.finditer(body) if literal["text"] is not None and not literal["escapes"])
