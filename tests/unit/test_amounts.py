"""Numbers of things in sentences."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import relaybox
from relaybox.amounts import amount

SHOWN = ("cli", "airflow/page", "airflow/operators", "monitoring")
"""Packages whose texts people read."""

NOUNS = "messages|rows|batches|dead letters|segments|ghosts|violations|lanes|slices"


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("message",), "0 messages"),
        (1, ("message",), "1 message"),
        (2_000, ("message",), "2,000 messages"),
        (1, ("batch", "batches"), "1 batch"),
        (2, ("batch", "batches"), "2 batches"),
        (1, ("message waits", "messages wait"), "1 message waits"),
    ],
)
def test_one_thing_is_singular(number: int, words: tuple[str, ...], told: str) -> None:
    assert amount(number, *words) == told


def test_no_text_for_people_says_1_messages() -> None:
    """A number before a plural comes from amount(), or is one that is never 1."""
    package = Path(relaybox.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {after.value}"
        for folder in SHOWN
        for path in sorted((package / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        for number, after in zip(node.values, node.values[1:], strict=False)
        if isinstance(number, ast.FormattedValue)
        and isinstance(after, ast.Constant)
        and re.match(f" (?:{NOUNS})(?![/\\w])", after.value)
    ]
    assert found == []
