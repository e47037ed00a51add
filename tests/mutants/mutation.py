"""`python -m tests.mutants.mutation`: mutmut on the core.

Modules that decide without a database: every mutant, by their unit tests. Modules that work on stores (`--stores`): a random
sample (tests.mutants.store_mutation), since each costs seconds.
A run that was ended goes on where it stopped, as long as code and tests stay as they are (.mutants/). Survivors that no test can
notice are listed in equivalents.toml, with the reason.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutants import REPOSITORY, MutantsBrokenError, copy_repository, digest_of_code
from tests.mutants.store_mutation import read_equivalents, try_stores

SCORE = 95.0
STATE = REPOSITORY / ".mutants"
PROGRESS_SECONDS = 30.0
TIME_LIMITS = (15, 60)
"""How many times longer than without a bug the tests may take. What takes longer is tried again with the last limit: a busy machine
is slow, only a bug never ends."""

CAUGHT = {"killed", "timeout", "segfault", "suspicious", "caught by type check"}


MODULES = ("hops.batches", "verification.comparisons", "verification.defects", "verification.reliability")
TESTS = (
    "tests/unit/test_batches.py",
    "tests/unit/test_comparisons.py",
    "tests/unit/test_defects.py",
    "tests/unit/test_exact_cuts.py",
    "tests/unit/test_reliability.py",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the share of mutants that the tests notice is high enough, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.mutation", description=__doc__)
    parser.add_argument("--stores", action="store_true", help="modules that work on stores, instead of those that decide")
    parser.add_argument("--sample", metavar="N", type=int, default=100, help="number of mutants with --stores (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=30.0, help="of tests per mutant of the sample (30)")
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="mutants of the sample at once (2)")
    parser.add_argument("--at-least", metavar="PERCENT", type=float, default=SCORE, help=f"score to reach ({SCORE:.0f})")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the next run goes on here"))
    if options.stores:
        score = try_stores(sample=options.sample, seed=options.seed, budget_seconds=options.budget, workers=options.workers)
    else:
        repository = _prepare(STATE / "decisions")
        for limit in TIME_LIMITS:
            _run(repository, limit)
        score = _report(repository, _verdicts(repository))
    return 0 if score >= options.at_least else 1


def _report(repository: Path, outcomes: dict[str, str]) -> float:
    """Prints the survivors and the score, which does not count the equivalent ones."""
    equivalents = read_equivalents()
    survivors = sorted(name for name, outcome in outcomes.items() if outcome not in CAUGHT)
    changes = {name: _change(repository, name) for name in survivors}
    missed = [name for name in survivors if changes[name] not in equivalents]
    for name in missed:
        function, line, becomes = changes[name]
        print(f"{outcomes[name]}: {name}\n    {function}\n    {line}\n    {becomes}")
    equivalent_count = len(survivors) - len(missed)
    counted = len(outcomes) - equivalent_count
    score = 100 * (1 - len(missed) / counted)
    print(
        f"{counted - len(missed)} of {counted} mutants of {', '.join(MODULES)} caught: {score:.1f} %, "
        f"{list(outcomes.values()).count('timeout')} of them by tests that never end; {equivalent_count} more are equivalent"
    )
    return score


def _change(repository: Path, name: str) -> tuple[str, str, str]:
    """Of a mutant: the function, its first line that differs, and what that has become."""
    lines = _mutmut(repository, "show", name).splitlines()
    removed = next((line[1:].strip() for line in lines if re.match(r"-(?!--)", line)), "")
    added = next((line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line)), "")
    return name.partition("__mutmut_")[0], removed, added


def _prepare(directory: Path) -> Path:
    """A copy of the repository as mutmut wants it, a library below src/; with the outcomes of a run that was ended, if it was of this code.

    mutmut reads its settings from pyproject.toml.
    """
    repository = directory / digest_of_code()
    if repository.is_dir():
        return repository
    shutil.rmtree(directory, ignore_errors=True)
    unfinished = directory / "unfinished"
    copy_repository(unfinished)
    (unfinished / "plugins").rename(unfinished / "src")
    settings = {
        "source_paths": ["src/relaybox"],
        "only_mutate": [f"src/relaybox/{module.replace('.', '/')}.py" for module in MODULES],
        "pytest_add_cli_args_test_selection": list(TESTS),
        "also_copy": ["tests", "sql"],
        "timeout_multiplier": TIME_LIMITS[0],
    }
    pyproject = unfinished / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    pyproject.write_text("\n".join([text, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    return unfinished.rename(repository)


def _run(repository: Path, limit: int) -> None:
    """Tries all mutants that are not tried yet, or were not within another limit; says how far it has come.

    What mutmut prints is in mutmut.log of the copy.
    """
    pyproject = repository / "pyproject.toml"
    settings = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(re.sub(r"timeout_multiplier = \d+", f"timeout_multiplier = {limit}", settings), encoding="utf-8")
    started = time.monotonic()
    with (repository / "mutmut.log").open("w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2"]
        with subprocess.Popen(command, cwd=repository, stdout=log, stderr=subprocess.STDOUT) as mutmut:
            while mutmut.poll() is None:
                try:
                    mutmut.wait(PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    results = _results(repository)
                    tried = sum(code is not None for code in results.values())
                    survived = sum(code in {0, 33} for code in results.values())
                    seconds = time.monotonic() - started
                    print(f"{tried} of {len(results)} mutants tried, {survived} survived ({seconds:.0f} s)", flush=True)
    if mutmut.returncode != 0:
        raise MutantsBrokenError((repository / "mutmut.log").read_text(encoding="utf-8")[-5000:])


def _results(repository: Path) -> dict[str, int | None]:
    """Mutant -> exit code of its tests; None: not tried yet."""
    results: dict[str, int | None] = {}
    for path in sorted((repository / "mutants").rglob("*.py.meta")):
        results |= json.loads(path.read_text(encoding="utf-8") or "{}").get("exit_code_by_key", {})
    return results


def _verdicts(repository: Path) -> dict[str, str]:
    """Mutant -> killed, survived, no tests, not checked, ..."""
    lines = _mutmut(repository, "results", "--all", "true").splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in lines if "__mutmut_" in line)


def _mutmut(repository: Path, *arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments], cwd=repository, capture_output=True, text=True, check=True
    )
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main())
