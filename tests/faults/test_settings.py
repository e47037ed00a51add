"""Whatever a server, a database or a role has set, and changes meanwhile: nothing is lost, doubled, reordered or confirmed too early.

Here all settings at once, and the one that is known to have stopped hops; each for itself and for whom: `make test-faults`.
"""

from __future__ import annotations

from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path

import psycopg2
import pytest

from tests.faults.cells import STEPS
from tests.faults.setting_cells import CONDITIONS, FAILPOINTS, SettingCell, all_setting_cells, run_setting_cell, together
from tests.faults.settings import AT_ONCE, DECISIVE, EXEMPT, HARMLESS, Setting, set_for_servers
from tests.faults.sites import Clusters, administer

pytestmark = pytest.mark.thorough

SAMPLE = [
    *(cell for cell in together() if cell.condition in {"init", "midway"}),
    *(cell for cell in all_setting_cells() if str(cell) == "default_transaction_isolation = serializable-midway"),
]


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_settings(cell: SettingCell, sides: Clusters, cell_directory: Path) -> None:
    """The driver is killed, or finds them changed, another one recovers, and the checker and every report find nothing."""
    result = run_setting_cell(cell, sides, cell_directory)
    assert result.is_good, [str(cell), *result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == 1


def test_every_setting_has_its_cells() -> None:
    """Each before `relaybox init` and in the middle of a run; those that change what statements mean at each side, too."""
    cells = list(all_setting_cells())
    assert len({str(cell) for cell in cells}) == len(cells) >= 300
    conditions: dict[Setting, set[str]] = {}
    for cell in cells:
        conditions.setdefault(cell.setting, set()).add(cell.condition)
    assert all(conditions[setting] == CONDITIONS.keys() for setting in (AT_ONCE, *DECISIVE))
    assert all(conditions[setting] == {"init", "midway"} for setting in HARMLESS)
    assert {failpoint for turns in FAILPOINTS.values() for failpoint in turns} <= STEPS.keys()


def test_no_setting_of_a_session_is_forgotten(sides: Clusters) -> None:
    """Whatever this version of Postgres lets a role, a database or a session set is struck, or named with its reason."""
    query = "select lower(name) from pg_settings where context in ('user', 'superuser')"
    known = {str(name) for (name,) in administer(sides.clusters["source"], query)}
    target = {name.lower() for setting in (*DECISIVE, *HARMLESS) for name, _ in setting.assignments}
    left = {name for name in known - target if not any(fnmatch(name, pattern) for pattern in EXEMPT)}
    assert left == set()
    assert [pattern for pattern in EXEMPT if not any(fnmatch(name, pattern) for name in known - target)] == []


def test_a_reload_reaches_sessions_that_run(sides: Clusters) -> None:
    """The axis can fail: what is set for the servers holds in a session that had begun, and is gone afterwards."""
    clusters = list(sides.clusters.values())
    with closing(psycopg2.connect(**clusters[0].parameters())) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("show default_transaction_isolation")
        assert cursor.fetchone() == ("read committed",)
        with set_for_servers(clusters, [Setting("x", (("default_transaction_isolation", "serializable"),))]):
            cursor.execute("show default_transaction_isolation")
            assert cursor.fetchone() == ("serializable",)
        cursor.execute("show default_transaction_isolation")
        assert cursor.fetchone() == ("read committed",)
