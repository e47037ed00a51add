"""`python -m tests.mutants`: breaks the code in every known way, one at a time, and expects the tests to notice.

The clusters are kept running; their template is made anew for each mutant of the schema. What was caught is kept in .mutants/, so that a
run that was ended goes on where it stopped, as long as code and tests stay as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.administration import administer_all
from tests.memory import fast_temporary_directory
from tests.mutants.mutants import (
    REPOSITORY,
    Mutant,
    MutantsBrokenError,
    Verdict,
    copy_repository,
    digest_of_code,
    read_mutants,
    require_green,
    require_under_test,
    try_mutant,
)
from tests.stores import running_clusters, write_clusters


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: all caught; 1: a mutant survived, so a test is missing; 2: the mutants prove nothing."""
    options = _parse(arguments)
    try:
        mutants = _chosen(options.only)
        if options.list:
            for mutant in mutants:
                print(f"{mutant.name}: {mutant.broken}")
            return 0
        started = time.monotonic()
        verdicts = _try_all(mutants, caught_file())
    except MutantsBrokenError as error:
        print(error, file=sys.stderr)
        return 2
    survivors = [verdict.mutant for verdict in verdicts if not verdict.caught_by]
    for mutant in survivors:
        print(f"SURVIVED {mutant.name}: {mutant.broken} Not noticed by: {' '.join(mutant.tests)}")
    seconds = time.monotonic() - started
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants caught in {seconds:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(_document(verdicts, seconds), indent=2) + "\n", encoding="utf-8")
    return 1 if survivors else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what is broken by each mutant, and stop")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="try this mutant only; may be repeated")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the verdicts there")
    return parser.parse_args(arguments)


def _chosen(names: Sequence[str]) -> tuple[Mutant, ...]:
    mutants = read_mutants()
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        raise MutantsBrokenError(f"no such mutant: {', '.join(sorted(unknown))}. See --list.")
    return tuple(mutant for mutant in mutants if not names or mutant.name in names)


def _try_all(mutants: Sequence[Mutant], caught: Path) -> list[Verdict]:
    known = _read_caught(caught)
    with ExitStack() as stack:
        directory = stack.enter_context(fast_temporary_directory("mutants"))
        original = copy_repository(directory / "original")
        require_under_test(original)
        left = [mutant for mutant in mutants if mutant.name not in known]
        clusters = stack.enter_context(running_clusters(directory / "clusters")) if left else {}
        write_clusters(directory / "clusters.json", clusters)
        verdicts = []
        for number, mutant in enumerate(mutants, start=1):
            if mutant in left:
                changes_schema = "+++ b/sql/" in mutant.patch.read_text(encoding="utf-8")
                if changes_schema:
                    administer_all(clusters, "drop database if exists template_store")
                verdict = try_mutant(mutant, original, directory, directory / "clusters.json")
                if changes_schema:
                    administer_all(clusters, "drop database if exists template_store")
                _keep(caught, verdict)
            else:
                verdict = Verdict(mutant, *known[mutant.name])
            verdicts.append(verdict)
            result = f"caught by {verdict.caught_by}" if verdict.caught_by else "SURVIVED"
            print(f"[{number}/{len(mutants)}] {mutant.name}: {result} ({verdict.seconds:.1f} s)", flush=True)
        require_green([verdict for verdict in verdicts if verdict.mutant in left], original, directory / "clusters.json")
    return verdicts


def _keep(caught: Path, verdict: Verdict) -> None:
    if verdict.caught_by:
        with caught.open("a", encoding="utf-8") as file:
            print(json.dumps([verdict.mutant.name, verdict.caught_by, verdict.seconds]), file=file)


def _read_caught(caught: Path) -> dict[str, tuple[str, float]]:
    lines = caught.read_text(encoding="utf-8").splitlines() if caught.exists() else []
    return {name: (test, seconds) for name, test, seconds in map(json.loads, lines)}


def caught_file() -> Path:
    """Where verdicts on this very code are kept; those on former code are removed."""
    directory = REPOSITORY / ".mutants" / "patches"
    state = directory / f"{digest_of_code()}.jsonl"
    directory.mkdir(parents=True, exist_ok=True)
    for former in set(directory.iterdir()) - {state}:
        former.unlink()
    return state


def _document(verdicts: Sequence[Verdict], seconds: float) -> dict[str, object]:
    return {
        "mutants": len(verdicts),
        "caught": sum(bool(verdict.caught_by) for verdict in verdicts),
        "seconds": round(seconds, 1),
        "verdicts": [
            {
                "mutant": verdict.mutant.name,
                "broken": verdict.mutant.broken,
                "caught_by": verdict.caught_by or None,
                "seconds": round(verdict.seconds, 1),
            }
            for verdict in verdicts
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
