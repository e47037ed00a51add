"""`python -m tests.mutants`: breaks the code in every known way, one at a time, and expects the tests to notice.

Two workers (tests.mutants.workers) try them; the template of their clusters is made anew for each mutant of the schema. What was caught is
kept in .mutants/, so that a run that was ended goes on where it stopped, as long as code and tests stay as they are.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.mutants.mutants import (
    REPOSITORY,
    TIMEOUT_SECONDS,
    Mutant,
    MutantsBrokenError,
    Verdict,
    apply_patch,
    digest_of_code,
    failed_in,
    give_new_time,
    read_mutants,
    require_green,
    require_under_test,
)
from tests.mutants.sql_mutation import share
from tests.mutants.workers import TEMPLATE, Worker, running_worker
from tests.support.administration import administer_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: all caught; 1: a mutant survived, so a test is missing; 2: the mutants show nothing."""
    options = _parse(arguments)
    try:
        mutants = _chosen(options.only)
        if options.list:
            for mutant in mutants:
                print(f"{mutant.name}: {mutant.broken}")
            return 0
        started = time.monotonic()
        outcomes = _try_all(mutants, caught_file(), options.workers)
    except MutantsBrokenError as error:
        print(error, file=sys.stderr)
        return 2
    survivors = [outcome.mutant for outcome in outcomes if not outcome.caught_by]
    for mutant in survivors:
        print(f"SURVIVED {mutant.name}: {mutant.broken} Not noticed by: {' '.join(mutant.tests)}")
    seconds = time.monotonic() - started
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} mutants caught in {seconds:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(_document(outcomes, seconds), indent=2) + "\n", encoding="utf-8")
    return 1 if survivors else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what is broken by each mutant, and stop")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="try this mutant only; may be repeated")
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="mutants at once, each with three clusters (2)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the outcomes there")
    return parser.parse_args(arguments)


def _chosen(names: Sequence[str]) -> tuple[Mutant, ...]:
    mutants = read_mutants()
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        raise MutantsBrokenError(f"no such mutant: {', '.join(sorted(unknown))}. See --list.")
    return tuple(mutant for mutant in mutants if not names or mutant.name in names)


def _try_all(mutants: Sequence[Mutant], caught: Path, workers: int) -> list[Verdict]:
    before = _read_caught(caught)
    known = {mutant.name: Verdict(mutant, *before[mutant.name]) for mutant in mutants if mutant.name in before}
    outcomes: dict[str, Verdict] = {}
    left = [mutant for mutant in mutants if mutant.name not in known]

    def attempt(worker: Worker, mutant: Mutant) -> None:
        outcomes[mutant.name] = outcome = _try_mutant(worker, mutant)
        _keep(caught, outcome)
        result = f"caught by {outcome.caught_by}" if outcome.caught_by else "SURVIVED"
        print(f"[{len(known) + len(outcomes)}/{len(mutants)}] {mutant.name}: {result} ({outcome.seconds:.1f} s)", flush=True)

    with ExitStack() as stack:
        running = [stack.enter_context(running_worker()) for _ in range(min(workers, len(left)))]
        for worker in running:
            require_under_test(worker.repository)
        if running:
            share(running, left, attempt)
            require_green(outcomes.values(), running[0].repository, running[0].directory / "clusters.json")
    found = known | outcomes
    return [found[mutant.name] for mutant in mutants]


def _try_mutant(worker: Worker, mutant: Mutant) -> Verdict:
    """Raises MutantsBrokenError when the patch does not fit, or its tests do not run or end."""
    started = time.monotonic()
    changes_schema = any(path.startswith("sql/") for path in mutant.paths)
    apply_patch(mutant, worker.repository)
    try:
        _give_new_times(worker, mutant)
        if changes_schema:
            _remove_template(worker)
        found = _first_failure(worker, mutant)
    finally:
        apply_patch(mutant, worker.repository, "--reverse")
        _give_new_times(worker, mutant)
        if changes_schema:
            _remove_template(worker)
    return Verdict(mutant, found, time.monotonic() - started)


def _first_failure(worker: Worker, mutant: Mutant) -> str:
    """Empty where all tests pass. An error before a test has begun shows nothing."""
    answer = worker.ask(
        10 * TIMEOUT_SECONDS, *("-p", "tests.mutants.code_anew", "--exitfirst", f"--timeout={TIMEOUT_SECONDS}"), *mutant.tests
    )
    if answer["code"] == 0:
        return ""
    failed = failed_in(str(answer["output"]))
    if answer["code"] != 1 or not failed:
        raise MutantsBrokenError(
            f"{mutant.name}: pytest {shlex.join(mutant.tests)} ended with {answer['code']}:\n{answer['output']}"
        )
    return failed


def _give_new_times(worker: Worker, mutant: Mutant) -> None:
    """Bytecode is found by the second and the size of its source."""
    for path in mutant.paths:
        give_new_time(worker.repository / path)


def _remove_template(worker: Worker) -> None:
    administer_all(worker.clusters, f"drop database if exists {TEMPLATE}")


def _keep(caught: Path, outcome: Verdict) -> None:
    if outcome.caught_by:
        with caught.open("a", encoding="utf-8") as file:
            print(json.dumps([outcome.mutant.name, outcome.caught_by, outcome.seconds]), file=file)


def _read_caught(caught: Path) -> dict[str, tuple[str, float]]:
    lines = caught.read_text(encoding="utf-8").splitlines() if caught.exists() else []
    return {name: (test, seconds) for name, test, seconds in map(json.loads, lines)}


def caught_file() -> Path:
    """Where outcomes on this very code are kept; those on former code are removed."""
    directory = REPOSITORY / ".mutants" / "patches"
    state = directory / f"{digest_of_code()}.jsonl"
    directory.mkdir(parents=True, exist_ok=True)
    for former in set(directory.iterdir()) - {state}:
        former.unlink()
    return state


def _document(outcomes: Sequence[Verdict], seconds: float) -> dict[str, object]:
    return {
        "mutants": len(outcomes),
        "caught": sum(bool(outcome.caught_by) for outcome in outcomes),
        "seconds": round(seconds, 1),
        "outcomes": [
            {
                "mutant": outcome.mutant.name,
                "broken": outcome.mutant.broken,
                "caught_by": outcome.caught_by or None,
                "seconds": round(outcome.seconds, 1),
            }
            for outcome in outcomes
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
