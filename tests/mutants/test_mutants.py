"""The seeded bugs apply to the code, and the command that runs them tells red from green."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutants import (
    REPOSITORY,
    MutantsBrokenError,
    Verdict,
    apply_patch,
    copy_repository,
    first_failure,
    read_mutants,
    require_green,
    require_under_test,
)

pytestmark = pytest.mark.thorough

MUTANTS = read_mutants()
HARMLESS = "# nothing is broken\n# tests: tests/unit/test_batches.py\n--- /dev/null\n+++ b/nothing.txt\n@@ -0,0 +1 @@\n+nothing\n"


@pytest.fixture(autouse=True)
def nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each mutant is tried, whatever earlier runs have found out."""
    caught = tmp_path / "caught.jsonl"
    monkeypatch.setattr("tests.mutants.__main__.caught_file", lambda: caught)
    return caught


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unbroken copy of the checkout."""
    return copy_repository(tmp_path_factory.mktemp("mutants") / "original")


def test_every_seeded_bug_still_fits_the_code() -> None:
    """A patch that no longer applies would show nothing."""
    assert len(MUTANTS) >= 190
    for mutant in MUTANTS:
        apply_patch(mutant, REPOSITORY, "--check")


def test_two_seeded_bugs_are_caught_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nothing_is_known: Path
) -> None:
    """One in SQL, one in Python: the command says by which test, in words and in JSON. A second run knows it."""
    report = tmp_path / "report.json"
    assert main(["--only", "slice-without-plan", "--only", "hole-taken-for-dense", "--json", str(report)]) == 0
    assert "2 of 2 mutants caught" in capsys.readouterr().out
    caught_by = {outcome["mutant"]: outcome["caught_by"] for outcome in json.loads(report.read_text())["outcomes"]}
    assert caught_by["hole-taken-for-dense"].startswith("tests/unit/test_exact_cuts.py::")
    assert caught_by["slice-without-plan"].endswith("::test_g3_receipts_of_another_plan_do_not_count")
    known = nothing_is_known.read_text()
    assert main(["--only", "slice-without-plan"]) == 0
    assert nothing_is_known.read_text() == known, "nothing was tried again"


def test_what_breaks_nothing_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug that no test notices is listed, and the command fails."""
    (tmp_path / "harmless.patch").write_text(HARMLESS)
    monkeypatch.setattr("tests.mutants.__main__.read_mutants", lambda: read_mutants(tmp_path))
    assert main([]) == 1


def test_a_patch_that_does_not_apply_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loud, and no outcome."""
    (tmp_path / "stale.patch").write_text(
        "# stale\n# tests: tests\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-never there\n+x\n"
    )
    monkeypatch.setattr("tests.mutants.__main__.read_mutants", lambda: read_mutants(tmp_path))
    assert main([]) == 2
    (tmp_path / "stale.patch").write_text("--- a/README.md\n+++ b/README.md\n")
    with pytest.raises(MutantsBrokenError, match="first line"):
        read_mutants(tmp_path)


def test_the_copy_is_what_is_tested(original: Path, tmp_path: Path) -> None:
    """Not the editable installation of the checkout; a folder without the library is told."""
    require_under_test(original)
    with pytest.raises(MutantsBrokenError, match="under test is"):
        require_under_test(tmp_path)


def test_a_selection_that_runs_nothing_is_an_error(original: Path) -> None:
    """A renamed test is not taken for a caught mutant, nor for a survivor."""
    with pytest.raises(MutantsBrokenError, match="ended with 5"):
        first_failure(["tests/unit/test_batches.py", "-k", "no_such_test"], original)


def test_a_test_that_fails_anyway_has_caught_nothing(original: Path) -> None:
    """A test that fails on unbroken code too shows nothing."""
    failing = original / "tests" / "unit" / "test_fails_anyway.py"
    failing.write_text("def test_fails_anyway():\n    assert False\n")
    with pytest.raises(MutantsBrokenError, match="fails without any mutant"):
        require_green([Verdict(MUTANTS[0], "tests/unit/test_fails_anyway.py", 0.0)], original)
