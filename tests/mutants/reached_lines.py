"""A pytest plugin: writes down which lines of the modules under test each test runs, and how long it takes.

Loaded with `-p tests.mutants.reached_lines`; one JSON document per line, in the file that RELAYBOX_CALLED_FUNCTIONS names. What a
test starts as a process of its own is not seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.mutants.python_bugs import MODULES, source_of

_MODULES = {str(source_of(module, Path.cwd())): module for module in MODULES}
_reached: set[tuple[str, int]] = set()
_seconds: dict[str, float] = defaultdict(float)
_failed: set[str] = set()


def _trace(frame: FrameType, _event: str, _argument: Any) -> Any:
    return _trace_lines if frame.f_code.co_filename in _MODULES else None


def _trace_lines(frame: FrameType, _event: str, _argument: Any) -> Any:
    _reached.add((_MODULES[frame.f_code.co_filename], frame.f_lineno))
    return _trace_lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Any:
    sys.settrace(_trace)
    threading.settrace(_trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """After the teardown of each test that passed."""
    _seconds[report.nodeid] += report.duration
    if report.failed:
        _failed.add(report.nodeid)
    if report.when == "teardown":
        if report.nodeid not in _failed:
            lines = {module: sorted(line for of, line in _reached if of == module) for module in MODULES}
            document = {"test": report.nodeid, "seconds": round(_seconds[report.nodeid], 2), "lines": lines}
            with Path(os.environ["RELAYBOX_CALLED_FUNCTIONS"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps(document) + "\n")
        _reached.clear()
