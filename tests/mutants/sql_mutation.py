"""`python -m tests.mutants.sql_mutation`: a sample of single-token bugs in SQL functions, each tried by the tests that call the function.

First each test file runs once, in clusters that count calls; then each bug is put into the stores of a worker (tests.mutants.workers).
What was learned and tried is kept in .mutants/: a run that was ended goes on where it stopped. Survivors are tried again each time;
those that no test can notice are listed in equivalents.toml, with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import random
import signal
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.mutants.calls import FUNCTIONS, Calls, learn_tests, read_calls, unlearned_tests
from tests.mutants.mutants import REPOSITORY
from tests.mutants.sql_tokens import TokenMutant, mutate
from tests.mutants.workers import Worker, running_worker

SCORE = 95.0
AREAS = ("streams", "subscriptions", "hops", "retention", "recovery", "monitoring", "stores", "verification")
TESTS = ("tests/integration", "tests/delivery")
STATE = REPOSITORY / ".mutants"
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
SURVIVED, EQUIVALENT, NO_SQL = "SURVIVED", "equivalent", "no SQL"

Work = TypeVar("Work")


@dataclass(frozen=True)
class Bug:
    """A mutant and the file of the function it is in."""

    function: Path
    mutant: TokenMutant

    @property
    def name(self) -> str:
        return f"{self.function.parent.name}/{self.function.stem}, {self.mutant.what}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.function.stem}\n{self.mutant.text}".encode()).hexdigest()

    @property
    def site(self) -> tuple[str, str, str]:
        """How equivalents.toml names it: it outlives other changes of the function."""
        return self.function.stem, self.mutant.line, self.mutant.becomes


@dataclass
class Trial:
    """One run: what is known already, and what is found out."""

    calls: Calls
    budget_seconds: float
    equivalents: frozenset[tuple[str, str, str]]
    path: Path
    caught: dict[str, str] = field(default_factory=dict)
    noticed: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def try_bug(self, worker: Worker, bug: Bug) -> str:
        """SURVIVED, EQUIVALENT, NO_SQL, or the test that noticed."""
        if bug.site in self.equivalents:
            return EQUIVALENT
        if bug.digest in self.caught:
            return self.caught[bug.digest]
        tests = self.calls.tests_of(bug.function.stem, self.budget_seconds, self.noticed)
        found = ""
        while tests and not found:
            with worker.broken(bug.function, bug.mutant) as is_valid:
                if not is_valid:
                    return self._note(bug, NO_SQL)
                longest = max(self.calls.seconds[test] for test in tests)
                found = worker.first_failure(tests, seconds_each=2 + longest)
                again = found if found not in tests else worker.first_failure([found])
            if found != again:  # it was only slower than its limit: the machine is busy
                tests, found = tests[tests.index(found) + 1 :], ""
                continue
            if not found:
                return SURVIVED
            if found in tests and worker.first_failure([found]):  # the machine is too busy for it, or it notices nothing
                tests, found = tests[tests.index(found) + 1 :], ""
        self.noticed[found] += 1
        return self._note(bug, found) if found else SURVIVED

    def _note(self, bug: Bug, result: str) -> str:
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"bug": bug.name, "digest": bug.digest, "result": result}) + "\n")
        return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the share of bugs that the tests notice is high enough in each area, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.sql_mutation", description=__doc__)
    parser.add_argument("--area", action="append", choices=AREAS, help="a folder of sql/functions; may be repeated (all)")
    parser.add_argument("--function", metavar="NAME", action="append", default=[], help="this function only; may be repeated")
    parser.add_argument("--sample", metavar="N", type=int, default=40, help="bugs per area (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--tests", metavar="SELECTION", nargs="*", default=TESTS, help="what may notice (integration, delivery)")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=60.0, help="of tests per bug, on a quiet machine (60)")
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="mutants at once, each with three clusters (2)")
    parser.add_argument("--state", metavar="DIRECTORY", type=Path, default=STATE, help="what is kept for the next run (.mutants)")
    parser.add_argument("--at-least", metavar="PERCENT", type=float, default=SCORE, help=f"score to reach ({SCORE:.0f})")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the next run goes on here"))
    options.state.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        workers = [stack.enter_context(running_worker(options.tests)) for _ in range(options.workers)]
        trial = prepare(workers, options)
        scores = [try_area(workers, trial, area, options) for area in options.area or AREAS]
    return 0 if min(scores) >= options.at_least else 1


def prepare(workers: Sequence[Worker], options: argparse.Namespace) -> Trial:
    """Learns which test calls what, and reads what earlier runs have tried."""
    learned = options.state / "calls.jsonl"

    def learn(worker: Worker, file: str) -> None:
        started = time.monotonic()
        count = learn_tests(worker, left[file], learned, seconds=600.0)
        print(f"{file}: what {count} tests call is learned ({time.monotonic() - started:.0f} s)", flush=True)

    left = unlearned_tests(learned, options.tests)
    share(workers, left, learn)
    trial = Trial(read_calls(learned), options.budget, read_equivalents(), options.state / "tried.jsonl")
    for line in trial.path.read_text(encoding="utf-8").splitlines() if trial.path.exists() else ():
        tried = json.loads(line)
        trial.caught[tried["digest"]] = tried["result"]
        trial.noticed[tried["result"]] += 1
    return trial


def try_area(workers: Sequence[Worker], trial: Trial, area: str, options: argparse.Namespace) -> float:
    """The share of a sample of the bugs of a folder that the tests notice."""
    bugs = list_bugs(area, options.function)
    random.Random(options.seed).shuffle(bugs)
    sample = bugs[: options.sample]
    results: dict[Bug, str] = {}
    began = time.monotonic()

    def attempt(worker: Worker, bug: Bug) -> None:
        started = time.monotonic()
        results[bug] = result = trial.try_bug(worker, bug)
        seconds = time.monotonic() - started
        print(f"[{area} {len(results)}/{len(sample)}] {bug.name}: {result} ({seconds:.1f} s)", flush=True)

    share(workers, sample, attempt)
    return report(area, results, len(bugs), time.monotonic() - began)


def report(area: str, results: dict[Bug, str], bug_count: int, seconds: float) -> float:
    """Prints the survivors and the score; equivalent bugs and those that are no SQL do not count."""
    survivors = [bug for bug, result in results.items() if result == SURVIVED]
    equivalent_count, no_sql_count = (list(results.values()).count(result) for result in (EQUIVALENT, NO_SQL))
    counted = len(results) - equivalent_count - no_sql_count
    for bug in sorted(survivors, key=lambda bug: bug.name):
        print(f"SURVIVED {bug.name}\n    {bug.mutant.line}\n    {bug.mutant.becomes}")
    score = 100.0 * (counted - len(survivors)) / counted if counted else 100.0
    print(
        f"{area}: {counted - len(survivors)} of {counted} caught: {score:.1f} %; {equivalent_count} more are equivalent, "
        f"{no_sql_count} are no SQL; {bug_count - len(results)} of {bug_count} were not in the sample; {seconds:.0f} s",
        flush=True,
    )
    return score


def list_bugs(area: str, functions: Sequence[str] = ()) -> list[Bug]:
    """Each bug that can be put into a folder of sql/functions, in the order of the files."""
    paths = sorted(path for path in (FUNCTIONS / area).glob("*.sql") if not functions or path.stem in functions)
    return [Bug(path, mutant) for path in paths for mutant in mutate(path.read_text(encoding="utf-8"))]


def read_equivalents(path: Path = EQUIVALENTS) -> frozenset[tuple[str, str, str]]:
    """The bugs that change nothing anybody can see."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return frozenset((one["function"], one["line"], one["becomes"]) for one in listed)


def share(workers: Sequence[Worker], work: Iterable[Work], do: Callable[[Worker, Work], None]) -> None:
    """Does all of the work, as many pieces at once as there are workers. Raises what a piece raised."""
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def one(piece: Work) -> None:
        worker = free.get()
        try:
            do(worker, piece)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        try:
            for done in [pool.submit(one, piece) for piece in work]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    sys.exit(main())
