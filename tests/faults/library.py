"""The library's own files, for tests that look at every module of it."""

from __future__ import annotations

from pathlib import Path

import relaybox

LIBRARY = Path(relaybox.__file__).parent

EDGES = {"airflow", "cli", "local", "spark"}
"""Packages around the core: they call it, and decide nothing about a message."""


def name_of(path: Path) -> str:
    """As in `hops/planning.py`."""
    return path.relative_to(LIBRARY).as_posix()


CORE = sorted(path for path in LIBRARY.rglob("*.py") if path.relative_to(LIBRARY).parts[0] not in EDGES)
