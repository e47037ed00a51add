"""Waits of tests follow the speed of the machine."""

from __future__ import annotations

import ast
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.patience import MOST, Deadline
from tests.support.world import wait_until

TESTS = Path(__file__).parents[1]
BUSY = "while True: pass"
WAITS = {"result", "join", "wait"}


@pytest.fixture
def becomes_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was quiet at the last measurement, and is ten times slower at every later one."""
    monkeypatch.setattr(patience._Machine, "slowness", 1.0)  # noqa: SLF001
    monkeypatch.setattr(patience._Machine, "measured_at", time.monotonic())  # noqa: SLF001
    monkeypatch.setattr(patience, "_measure", lambda: 10.0)


def test_busy_neighbours_make_the_machine_slower() -> None:
    """Four for each core. A new process may come first, until the load of the last minute says how many want a core."""
    ends_at = time.monotonic() + 300
    busy = [subprocess.Popen([sys.executable, "-I", "-c", BUSY]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        while not 2 < patience._measure() <= MOST:  # noqa: SLF001
            assert time.monotonic() < ends_at
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.usefixtures("becomes_slower")
def test_a_machine_that_became_slower_is_waited_for() -> None:
    """Ten times as long."""
    began, deadline = time.monotonic(), Deadline(0.05)
    while not deadline.is_over():
        pass
    assert time.monotonic() - began >= 0.5


def test_a_wait_without_progress_ends_and_says_how_long_it_was() -> None:
    with pytest.raises(AssertionError, match=r"not within .* s \(0.01 s on a quiet machine\): nothing happens"):
        wait_until(lambda: False, "nothing happens", deadline_seconds=0.01)


@pytest.mark.usefixtures("becomes_slower")
def test_a_wait_goes_on_while_there_is_progress() -> None:
    """Thirty steps of 0.03 s, by a deadline of 0.2 s."""
    steps = itertools.count()
    reached: list[int] = []

    def is_done() -> bool:
        reached.append(next(steps))
        return len(reached) > 30

    wait_until(is_done, "thirty steps", deadline_seconds=0.02, poll_seconds=0.03, progress=lambda: len(reached))


def test_no_test_waits_for_a_number_of_seconds() -> None:
    """A plain number is right on one machine only."""
    found = [f"{path.relative_to(TESTS)}:{line}" for path in sorted(TESTS.rglob("*.py")) for line in plain_waits(path)]
    assert found == []


def plain_waits(path: Path) -> Iterator[int]:
    """Lines that wait for a plain number: `timeout=60`, `.result(60)`, `deadline = time.monotonic() + 60`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            waited = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in WAITS:
                waited += node.args[:1]
            if any(
                isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value >= 1 for value in waited
            ):
                yield node.lineno
        if isinstance(node, ast.Assign) and ast.unparse(node).startswith("deadline = time.monotonic() +"):
            yield node.lineno
