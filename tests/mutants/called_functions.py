"""A pytest plugin: writes down which functions of the stores each test calls, and how long it takes.

Loaded with `-p tests.mutants.called_functions`, in clusters with track_functions = all. One JSON document per line, in the file that
RELAYBOX_CALLED_FUNCTIONS names.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from relaybox.local.clusters import Cluster
from tests.support import disposal

_discard = disposal.discard
_called: set[str] = set()
_seconds: dict[str, float] = defaultdict(float)
_failed: set[str] = set()


def _discard_and_look(databases: Iterable[tuple[Cluster, str]]) -> None:
    found = list(databases)
    for cluster, name in found:
        with closing(psycopg2.connect(**cluster.parameters(name))) as session, session.cursor() as cursor:
            cursor.execute("select funcname from pg_stat_user_functions where schemaname in ('relaybox', 'relaybox_internal')")
            _called.update(name for (name,) in cursor.fetchall())
    _discard(found)


disposal.discard = _discard_and_look


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """After the teardown of each test that passed: its databases are gone, and were looked at."""
    _seconds[report.nodeid] += report.duration
    if report.failed:
        _failed.add(report.nodeid)
    if report.when == "teardown":
        if report.nodeid not in _failed:
            line = {"test": report.nodeid, "seconds": round(_seconds[report.nodeid], 2), "functions": sorted(_called)}
            with Path(os.environ["RELAYBOX_CALLED_FUNCTIONS"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        _called.clear()
