"""`python -m tests.mutants.sql_mutation`: a sample of single-token bugs in SQL functions, each tried by the tests that call the function.

First the tests run once, in clusters that count calls; then each bug is put into the template that tests copy their stores from.
Nothing on the disk is changed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from relaybox.local.clusters import Cluster
from tests import stores
from tests.memory import fast_temporary_directory
from tests.mutants.mutants import REPOSITORY
from tests.mutants.sql_tokens import TokenMutant, mutate
from tests.patience import patience

SCORE = 95.0
AREAS = ("hops", "retention", "proofs", "recovery", "stores", "streams", "monitoring", "consumers")
TESTS = ("tests/integration", "tests/delivery")
TEMPLATE = "template_store"
FUNCTIONS = REPOSITORY / "sql" / "functions"


@dataclass(frozen=True)
class Tried:
    """One bug: `caught_by` is empty where no test noticed, or none calls the function."""

    function: Path
    mutant: TokenMutant
    caught_by: str


@dataclass(frozen=True)
class Called:
    """Which tests call a function, the quickest first, and how long each takes."""

    tests: Mapping[str, Sequence[str]]
    seconds: Mapping[str, float]

    def for_function(self, function: str, budget_seconds: float) -> list[str]:
        chosen, spent = [], 0.0
        for test in self.tests.get(function, ()):
            spent += self.seconds[test]
            if chosen and spent > budget_seconds:
                break
            chosen.append(test)
        return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the share of bugs that the tests notice is high enough in each area, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.sql_mutation", description=__doc__)
    parser.add_argument("--area", action="append", choices=AREAS, help="a folder of sql/functions; may be repeated (all)")
    parser.add_argument("--function", metavar="NAME", action="append", default=[], help="this function only; may be repeated")
    parser.add_argument("--sample", metavar="N", type=int, default=40, help="so many bugs per area (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--tests", metavar="SELECTION", nargs="*", default=TESTS, help="what may notice (integration, delivery)")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=60.0, help="of tests per bug (60)")
    parser.add_argument("--at-least", metavar="PERCENT", type=float, default=SCORE, help=f"score to reach ({SCORE:.0f})")
    options = parser.parse_args(arguments)
    with kept_clusters() as (clusters, directory):
        called = learn_calls(clusters, options.tests, directory / "called.jsonl")
        scores = [try_area(clusters, called, area, options) for area in options.area or AREAS]
    return 0 if min(scores) >= options.at_least else 1


@contextmanager
def kept_clusters() -> Iterator[tuple[Sequence[Cluster], Path]]:
    """Three clusters that count calls of functions, which RELAYBOX_TEST_CLUSTERS names, and a directory."""
    settings, stores.SETTINGS["track_functions"] = dict(stores.SETTINGS), "all"
    try:
        with fast_temporary_directory("relaybox-sql-mutants-") as directory, stores.running_clusters(directory) as clusters:
            stores.write_clusters(directory / "clusters.json", clusters)
            os.environ["RELAYBOX_TEST_CLUSTERS"] = str(directory / "clusters.json")
            yield list(clusters.values()), directory
    finally:
        stores.SETTINGS.clear()
        stores.SETTINGS.update(settings)


def learn_calls(clusters: Sequence[Cluster], tests: Sequence[str], path: Path) -> Called:
    """Runs the tests once. Functions that Postgres would inline are kept from it meanwhile: inlined calls are not counted."""
    run_tests("tests/integration/test_pollers.py")  # whichever comes first makes the template
    _apply(clusters, _INLINE.format("set extra_float_digits = 1"))
    os.environ["RELAYBOX_CALLED_FUNCTIONS"] = str(path)
    run_tests("-p", "tests.mutants.called_functions", *tests)
    _apply(clusters, _INLINE.format("reset extra_float_digits"))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    seconds = {line["test"]: line["seconds"] for line in lines}
    found: dict[str, list[str]] = {}
    for line in lines:
        for function in line["functions"]:
            found.setdefault(function, []).append(line["test"])
    return Called({name: sorted(tests, key=seconds.__getitem__) for name, tests in found.items()}, seconds)


_INLINE = """
do $$ declare f record; begin
    for f in select oid::regprocedure as name from pg_proc
        where pronamespace = 'relaybox'::regnamespace and prolang = (select oid from pg_language where lanname = 'sql')
    loop execute format('alter function %s {}', f.name); end loop;
end $$
"""


def try_area(clusters: Sequence[Cluster], called: Called, area: str, options: argparse.Namespace) -> float:
    mutants = [(path, mutant) for path in sorted((FUNCTIONS / area).glob("*.sql")) for mutant in mutate(path.read_text())]
    if options.function:
        mutants = [(path, mutant) for path, mutant in mutants if path.stem in options.function]
    sample = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    tried = []
    for path, mutant in sample:
        with _broken(clusters, path, mutant) as is_valid:
            if not is_valid:
                continue
            chosen = called.for_function(path.stem, options.budget)
            tried.append(one := Tried(path, mutant, run_tests("--exitfirst", *chosen) if chosen else ""))
        result = f"caught by {one.caught_by}" if one.caught_by else "SURVIVED"
        print(f"{path.stem}, {mutant.what}: {result}", flush=True)
    caught = sum(bool(one.caught_by) for one in tried)
    score = 100.0 * caught / len(tried) if tried else 100.0
    print(f"{area}: {caught} of {len(tried)} caught: {score:.1f} %", flush=True)
    return score


@contextmanager
def _broken(clusters: Sequence[Cluster], path: Path, mutant: TokenMutant) -> Iterator[bool]:
    """Within, new test databases have the bug. False: it is no SQL, so nobody could have made it."""
    try:
        _apply(clusters, mutant.text)
    except psycopg2.Error:
        yield False
        return
    try:
        yield True
    finally:
        _apply(clusters, path.read_text())


def _apply(clusters: Sequence[Cluster], statement: str) -> None:
    for cluster in clusters:
        with closing(psycopg2.connect(**cluster.parameters(TEMPLATE))) as session, session.cursor() as cursor:
            cursor.execute(statement)
            session.commit()


def run_tests(*arguments: str) -> str:
    """The first test that fails, "a test that hangs", or an empty text."""
    command = [sys.executable, "-m", "pytest", "--quiet", "--no-header", "-p", "no:cacheprovider", "--timeout=60", *arguments]
    answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=patience(7200))
    failed = [line.split(" ", 2)[1] for line in answer.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else "" if answer.returncode in {0, 5} else "a test that hangs"


if __name__ == "__main__":
    sys.exit(main())
