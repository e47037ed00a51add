"""`python -m tests.mutants`: breaks the code in every known way, one at a time, and expects the tests to notice."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from relaybox.local.scratch import scratch_directory
from tests.mutants.mutants import (
    Mutant,
    MutantsBrokenError,
    Verdict,
    copy_repository,
    read_mutants,
    require_green,
    require_under_test,
    try_mutant,
)


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
        verdicts = _try_all(mutants)
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


def _try_all(mutants: Sequence[Mutant]) -> list[Verdict]:
    with scratch_directory("mutants") as directory:
        original = copy_repository(directory / "original")
        require_under_test(original)
        verdicts = []
        for number, mutant in enumerate(mutants, start=1):
            verdicts.append(verdict := try_mutant(mutant, original, directory))
            result = f"caught by {verdict.caught_by}" if verdict.caught_by else "SURVIVED"
            print(f"[{number}/{len(mutants)}] {mutant.name}: {result} ({verdict.seconds:.1f} s)", flush=True)
        require_green(verdicts, original)
    return verdicts


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
