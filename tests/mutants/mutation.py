"""`python -m tests.mutants.mutation`: mutmut on the core.

Modules that decide without a database: every mutant, by their unit tests. Modules that work on stores (`--stores`): a random
sample, by tests on real stores that are kept running for all mutants, since each costs seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.memory import fast_temporary_directory
from tests.mutants.mutants import copy_repository
from tests.stores import running_clusters, write_clusters

SCORE = 80.0
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
    with fast_temporary_directory("mutmut") as directory, ExitStack() as stack:
        repository = copy_repository(directory / "relaybox")
        _prepare(repository, target)
        if options.stores:
            write_clusters(directory / "clusters.json", stack.enter_context(running_clusters(directory / "clusters")))
            os.environ["RELAYBOX_TEST_CLUSTERS"] = str(directory / "clusters.json")
        verdicts = _try_sample(repository, options) if options.stores else _try_all(repository)
    survivors = sorted(name for name, verdict in verdicts.items() if verdict not in CAUGHT)
    score = 100 * (1 - len(survivors) / len(verdicts))
    print("\n".join(f"{verdicts[name]}: {name}" for name in survivors))
    caught = len(verdicts) - len(survivors)
    print(f"{caught} of {len(verdicts)} mutants of {', '.join(target.modules)} caught: {score:.1f} %")
    return 0 if score >= options.at_least else 1


def _prepare(repository: Path, target: Target) -> None:
    """mutmut looks for a library below src/ and reads its settings from pyproject.toml."""
    (repository / "plugins").rename(repository / "src")
    settings = {
        "source_paths": ["src/relaybox"],
        "only_mutate": [f"src/relaybox/{module.replace('.', '/')}.py" for module in target.modules],
        "pytest_add_cli_args_test_selection": list(target.tests),
        "also_copy": ["tests", "sql"],
    }
    pyproject = repository / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    pyproject.write_text("\n".join([text, "[tool.mutmut]", *lines, ""]), encoding="utf-8")


def _try_all(repository: Path) -> dict[str, str]:
    _mutmut(repository, "run", "--max-children", "2")
    return _verdicts(repository)


def _try_sample(repository: Path, options: argparse.Namespace) -> dict[str, str]:
    """The first run makes the mutants and learns which test reaches which; the second one tries the sample."""
    _mutmut(repository, "run", "--max-children", "1", "relaybox.hops.planning.x_plan_batch__mutmut_1")
    names = sorted(_verdicts(repository))
    sample = random.Random(options.seed).sample(names, min(options.sample, len(names)))
    _mutmut(repository, "run", "--max-children", "2", *sample)
    verdicts = _verdicts(repository)
    return {name: verdicts[name] for name in sample}


def _verdicts(repository: Path) -> dict[str, str]:
    """Mutant -> killed, survived, no tests, not checked, ..."""
    lines = _mutmut(repository, "results", "--all", "true", quiet=True).splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in lines if "__mutmut_" in line)


def _mutmut(repository: Path, *arguments: str, quiet: bool = False) -> str:
    quiet = quiet or not sys.stdout.isatty()
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
