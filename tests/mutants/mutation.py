"""`python -m tests.mutants.mutation`: mutmut on the modules of the core that decide without a database.

What a database decides is broken on purpose by the patches beside this file: a mutant there costs seconds of a real store.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutants import copy_repository

MODULES = ("batches", "comparisons", "defects", "reliability", "snapshots")
TESTS = (
    "tests/unit/test_batches.py",
    "tests/unit/test_comparisons.py",
    "tests/unit/test_defects.py",
    "tests/unit/test_exact_cuts.py",
    "tests/unit/test_reliability.py",
    "tests/unit/test_snapshots.py",
)
SCORE = 80.0
CAUGHT = ("killed", "timeout", "segfault", "suspicious")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the share of mutants that the unit tests notice is high enough, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.mutation", description=__doc__)
    parser.add_argument("--at-least", metavar="PERCENT", type=float, default=SCORE, help=f"score to reach (default {SCORE:.0f})")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="relaybox-mutmut-") as name:
        repository = copy_repository(Path(name) / "relaybox")
        _prepare(repository)
        _mutmut(repository, "run", "--max-children", "2", quiet=not sys.stdout.isatty())
        survivors = _mutmut(repository, "results", quiet=True)
        _mutmut(repository, "export-cicd-stats", quiet=True)
        counts = json.loads((repository / "mutants" / "mutmut-cicd-stats.json").read_text(encoding="utf-8"))
    caught, total = sum(counts.get(kind, 0) for kind in CAUGHT), counts["total"]
    score = 100 * caught / total
    print(survivors)
    print(f"{caught} of {total} mutants of {', '.join(MODULES)} caught: {score:.1f} %")
    return 0 if score >= options.at_least else 1


def _prepare(repository: Path) -> None:
    """mutmut looks for a library below src/ and reads its settings from pyproject.toml."""
    (repository / "plugins").rename(repository / "src")
    settings = {
        "source_paths": ["src/relaybox"],
        "only_mutate": [f"src/relaybox/{module}.py" for module in MODULES],
        "pytest_add_cli_args_test_selection": list(TESTS),
        "also_copy": ["tests", "sql"],
    }
    pyproject = repository / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    pyproject.write_text("\n".join([text, "[tool.mutmut]", *lines, ""]), encoding="utf-8")


def _mutmut(repository: Path, *arguments: str, quiet: bool = False) -> str:
    answer = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=repository,
        stdout=subprocess.PIPE if quiet else None,
        text=True,
        check=True,
    )
    return answer.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
