"""The driver's password or a right of it changes at a step: the hop may stop, loses nothing, and goes on with the same login.

Here the cells of one step in four; all of them: `make test-faults`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.login_cells import PASSWORDS, RIGHTS, STRUCK, LoginCell, all_login_cells, run_login_cell
from tests.faults.sites import Clusters

pytestmark = pytest.mark.thorough

SAMPLE = [
    *(LoginCell(what, failpoint) for what, failpoint in zip(PASSWORDS, STRUCK[1::7], strict=False)),
    *(
        LoginCell(right, failpoint)
        for right, failpoint in zip(("batches", "log", "receipts", "confirmations"), STRUCK[::6], strict=False)
    ),
]


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_logins(cell: LoginCell, sides: Clusters, cell_directory: Path) -> None:
    result = run_login_cell(cell, sides, cell_directory)
    assert result.is_good, [str(cell), *result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == 1


def test_each_step_meets_each_change_of_a_login_and_three_rights() -> None:
    cells = list(all_login_cells())
    assert len(set(cells)) == len(cells)
    met = {failpoint: {cell.what for cell in cells if cell.failpoint == failpoint} for failpoint in STRUCK}
    assert all(met[failpoint] >= set(PASSWORDS) and len(met[failpoint] & RIGHTS.keys()) == 3 for failpoint in STRUCK)
    assert {cell.what for cell in cells} == {*PASSWORDS, *RIGHTS}
    page = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert f"`make test-faults` tests all {len(cells)} of them, `make test-all` nine |" in page
    assert len(SAMPLE) == 9
