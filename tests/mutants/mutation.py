"""`python -m tests.mutants.mutation`: mutmut on the core.

Modules that decide without a database: every mutant, by their unit tests. Modules that work on stores (`--stores`): a random
sample, by tests on real stores that are kept running for all mutants, since each costs seconds.
A run that was ended goes on where it stopped, as long as code and tests stay as they are (.mutants/). Survivors that no test can
notice are listed in equivalents.toml, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.memory import fast_temporary_directory
from tests.mutants.mutants import REPOSITORY, MutantsBrokenError, copy_repository, digest_of_code
from tests.stores import running_clusters, write_clusters

SCORE = 95.0
STATE = REPOSITORY / ".mutants"
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
PROGRESS_SECONDS = 30.0
CAUGHT = {"killed", "timeout", "segfault", "suspicious", "caught by type check"}


@dataclass(frozen=True)
class Target:
    """What is broken, and the tests that are to notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


DECISIONS = Target(
    ("hops.batches", "proofs.comparisons", "proofs.defects", "proofs.reliability"),
    (
        "tests/unit/test_batches.py",
        "tests/unit/test_comparisons.py",
        "tests/unit/test_defects.py",
        "tests/unit/test_exact_cuts.py",
        "tests/unit/test_reliability.py",
    ),
)
STORES = Target(
    ("hops.confirmations", "hops.copying", "hops.planning", "hops.publishing", "hops.transfer", "stores.pipe"),
    (
        "tests/integration/test_g2_no_skip.py",
        "tests/integration/test_g3_no_duplicate.py",
        "tests/integration/test_g4_dense_log.py",
        "tests/integration/test_g7_true_confirmations.py",
        "tests/integration/test_guards.py",
        "tests/integration/test_pipe.py",
        "tests/integration/test_reanchor.py",
        "tests/integration/test_status.py",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the share of mutants that the tests notice is high enough, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.mutation", description=__doc__)
    parser.add_argument("--stores", action="store_true", help="modules that work on stores, instead of those that decide")
    parser.add_argument("--sample", metavar="N", type=int, default=100, help="so many mutants with --stores (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--at-least", metavar="PERCENT", type=float, default=SCORE, help=f"score to reach ({SCORE:.0f})")
    options = parser.parse_args(arguments)
    target = STORES if options.stores else DECISIONS
    repository = _prepare(STATE / ("stores" if options.stores else "decisions"), target)
    with ExitStack() as stack:
        if options.stores:
            directory = stack.enter_context(fast_temporary_directory("mutmut"))
            write_clusters(directory / "clusters.json", stack.enter_context(running_clusters(directory / "clusters")))
            os.environ["RELAYBOX_TEST_CLUSTERS"] = str(directory / "clusters.json")
        verdicts = _try_sample(repository, options) if options.stores else _try_all(repository)
    return 0 if _report(repository, target, verdicts) >= options.at_least else 1


def _report(repository: Path, target: Target, verdicts: dict[str, str]) -> float:
    """Prints the survivors and the score, which does not count the equivalent ones."""
    listed = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8")).get("python", [])
    equivalents = {(one["function"], one["line"], one["becomes"]) for one in listed}
    survivors = sorted(name for name, verdict in verdicts.items() if verdict not in CAUGHT)
    changes = {name: _change(repository, name) for name in survivors}
    missed = [name for name in survivors if changes[name] not in equivalents]
    for name in missed:
        function, line, becomes = changes[name]
        print(f"{verdicts[name]}: {name}\n    {function}\n    {line}\n    {becomes}")
    equivalent_count = len(survivors) - len(missed)
    counted = len(verdicts) - equivalent_count
    score = 100 * (1 - len(missed) / counted)
    print(
        f"{counted - len(missed)} of {counted} mutants of {', '.join(target.modules)} caught: {score:.1f} %; "
        f"{equivalent_count} more are equivalent"
    )
    return score


def _change(repository: Path, name: str) -> tuple[str, str, str]:
    """Of a mutant: the function, its first line that differs, and what that has become."""
    lines = _mutmut(repository, "show", name).splitlines()
    removed = next((line[1:].strip() for line in lines if re.match(r"-(?!--)", line)), "")
    added = next((line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line)), "")
    return name.partition("__mutmut_")[0], removed, added


def _prepare(directory: Path, target: Target) -> Path:
    """A copy of the repository as mutmut wants it, a library below src/; with the verdicts of a run that was ended, if it was of this code.

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
        "only_mutate": [f"src/relaybox/{module.replace('.', '/')}.py" for module in target.modules],
        "pytest_add_cli_args_test_selection": list(target.tests),
        "also_copy": ["tests", "sql"],
    }
    pyproject = unfinished / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    pyproject.write_text("\n".join([text, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    return unfinished.rename(repository)


def _try_all(repository: Path) -> dict[str, str]:
    _run(repository)
    return _verdicts(repository)


def _try_sample(repository: Path, options: argparse.Namespace) -> dict[str, str]:
    """The first run makes the mutants and learns which test reaches which; the second one tries those of the sample that are left."""
    if not _results(repository):
        _run(repository, "relaybox.hops.planning.x_plan_batch__mutmut_1")
    names = sorted(_results(repository))
    sample = random.Random(options.seed).sample(names, min(options.sample, len(names)))
    left = [name for name in sample if _results(repository)[name] is None]
    if left:
        _run(repository, *left)
    verdicts = _verdicts(repository)
    return {name: verdicts[name] for name in sample}


def _run(repository: Path, *names: str) -> None:
    """Tries the named mutants, or all; says how far it has come. What mutmut prints is in mutmut.log of the copy."""
    started = time.monotonic()
    with (repository / "mutmut.log").open("w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2", *names]
        with subprocess.Popen(command, cwd=repository, stdout=log, stderr=subprocess.STDOUT) as mutmut:
            while mutmut.poll() is None:
                try:
                    mutmut.wait(PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    results = {name: code for name, code in _results(repository).items() if not names or name in names}
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
