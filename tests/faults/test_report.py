"""The reliability report counts whatever a cell of any section finds."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.change_jobs import INVARIANTS as BY_GUARANTEE
from tests.faults.change_jobs import violations_of
from tests.faults.checker import INVARIANTS
from tests.faults.conservation import Breach
from tests.faults.report import COLUMNS, Row, write_report


def row(section: str, *violations: str, problems: tuple[str, ...] = ()) -> Row:
    """A cell whose failpoint was reached."""
    counted = {violation: violations.count(violation) for violation in violations}
    return Row(section, f"a cell of {section}", 1, 1, 1, 2.0, 1.0, 36, 7, 0, counted, problems)


def test_each_invariant_is_in_one_column() -> None:
    """However invariants come and go."""
    counted = [name for names in COLUMNS.values() for name in names]
    assert sorted(counted) == sorted(INVARIANTS)
    assert INVARIANTS.keys() >= {*BY_GUARANTEE.values()}


def test_what_the_account_of_a_changed_route_finds_is_counted(tmp_path: Path) -> None:
    """G3, G4, G5, G8 and G12 by their columns; a cell that ended with an error and no outcome is counted, too."""
    breach = Breach([f"{guarantee}: flights/1: something" for guarantee in ("G3", "G4", "G5", "G8", "G12")])
    found = [violation.invariant for violation in violations_of(breach)]
    rows = [row("changes", *found), row("matrix", "conserved"), row("settings", "false_received"), row("restores")]
    rows.append(row("restores", problems=("StoreBusy: ...",)))
    write_report(rows, tmp_path / "report.md", command="x", postgres="18")
    facts = json.loads((tmp_path / "report.json").read_text())
    counts = {column: facts[column] for column in COLUMNS}
    assert counts == {"lost": 4, "doubled": 1, "out_of_order": 1, "false_confirmations": 1, "otherwise_wrong": 0}
    assert (facts["good_cells"], facts["stopped_cells"]) == (1, 1)
    assert "| 4 | 1 | 1 | 1 | 0 | 1 |" in (tmp_path / "report.md").read_text()
