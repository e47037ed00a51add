"""`python -m tests.mutants.mutation --stores`: a sample of bugs in modules that work on stores, each tried by the tests that run its line.

First each test file runs once and tells which lines each test runs; then each bug is put into the copy of a worker
(tests.mutants.workers), and the tests that run its line are run until one fails, those first that noticed most bugs so far.
What was learned and tried is kept in .mutants/: a run that was ended goes on where it stopped. Survivors are tried again each time;
those that no test can notice are listed in equivalents.toml, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.mutants import REPOSITORY, MutantsBrokenError, failed_in, give_new_time
from tests.mutants.python_bugs import MODULES, Bugs, PythonBug, list_bugs, source_of
from tests.mutants.sql_mutation import share
from tests.mutants.workers import HANGS, Worker, running_worker
from tests.support.patience import slowness

STATE = REPOSITORY / ".mutants"
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
SURVIVED, EQUIVALENT = "SURVIVED", "equivalent"
TESTS = (
    "tests/integration/test_clocks.py",
    "tests/integration/test_detached_segments.py",
    "tests/integration/test_driver_decisions.py",
    "tests/integration/test_durable_plan.py",
    "tests/integration/test_errors_of_stores.py",
    "tests/integration/test_failure_rates.py",
    "tests/integration/test_g2_no_skip.py",
    "tests/integration/test_g3_no_duplicate.py",
    "tests/integration/test_g4_dense_log.py",
    "tests/integration/test_g6_chosen_order.py",
    "tests/integration/test_g7_processed.py",
    "tests/integration/test_g7_true_confirmations.py",
    "tests/integration/test_g12_reanchored.py",
    "tests/integration/test_guards.py",
    "tests/integration/test_local_hop.py",
    "tests/integration/test_pipe.py",
    "tests/integration/test_reanchor.py",
    "tests/integration/test_status.py",
    "tests/integration/test_watermarks.py",
    "tests/integration/test_where.py",
)


@dataclass(frozen=True)
class Learned:
    """A test: the lines that it runs of each module, and the seconds it takes on a quiet machine."""

    test: str
    seconds: float
    lines: dict[str, frozenset[int]]

    @property
    def file(self) -> str:
        return self.test.split("::", 1)[0]


@dataclass
class Trial:
    """One run: what is known already, and what is found out."""

    learned: Sequence[Learned]
    budget_seconds: float
    equivalents: frozenset[tuple[str, str, str]]
    path: Path
    caught: dict[str, str] = field(default_factory=dict)
    noticed: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tests_of(self, bug: PythonBug) -> list[Learned]:
        """Those that run a line of the bug, else a line of its function; as many as the budget allows, at least one.

        First those that noticed most bugs so far, then the quickest of each file, then the second of each.
        """
        module = bug.name.removeprefix("relaybox.").rsplit(".", 1)[0]
        of_line, of_function = (
            [learned for learned in self.learned if not learned.lines[module].isdisjoint(lines)]
            for lines in (bug.lines, bug.function_lines)
        )
        of_file: Counter[str] = Counter()
        ranked = []
        for learned in sorted(of_line or of_function, key=lambda learned: learned.seconds):
            of_file[learned.file] += 1
            ranked.append((-self.noticed[learned.test], of_file[learned.file], learned.seconds, learned.test, learned))
        chosen, spent = [], 0.0
        for *_, seconds, _, learned in sorted(ranked, key=lambda one: one[:4]):
            spent += seconds
            if chosen and spent > self.budget_seconds:
                break
            chosen.append(learned)
        return chosen

    def try_bug(self, worker: Worker, bug: PythonBug) -> str:
        """SURVIVED, EQUIVALENT, or what noticed."""
        if bug.site in self.equivalents:
            return EQUIVALENT
        if bug.digest in self.caught:
            return self.caught[bug.digest]
        tests = self.tests_of(bug)
        if not tests:
            return SURVIVED
        with broken(worker, bug):
            found = first_failure(worker, tests)
        if not found:
            return SURVIVED
        self.noticed[found] += 1
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"bug": bug.name, "digest": bug.digest, "result": found}) + "\n")
        return found


@contextmanager
def broken(worker: Worker, bug: PythonBug) -> Iterator[None]:
    """Within, the worker's copy has the bug."""
    path = worker.repository / bug.path.relative_to(REPOSITORY)
    whole = path.read_text(encoding="utf-8")
    try:
        _put(path, bug.text)
        yield
    finally:
        _put(path, whole)


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    give_new_time(path)


def first_failure(worker: Worker, tests: Sequence[Learned]) -> str:
    """The first test that fails, or how pytest ended where the bug did not let it tell; an empty text: all pass."""
    longest = max(learned.seconds for learned in tests)
    answer = worker.ask(
        120.0 + 2 * sum(learned.seconds for learned in tests),
        *("-p", "tests.mutants.code_anew", "--exitfirst", f"--timeout={5 + 2 * longest:.0f}"),
        *(learned.test for learned in tests),
    )
    if answer["code"] == 0:
        return ""
    if answer["code"] in {4, 5}:
        raise MutantsBrokenError(f"pytest could not begin:\n{answer['output']}")
    if failed := failed_in(str(answer["output"])):
        return failed
    return HANGS if answer["code"] in {None, 1} else f"pytest ended with {answer['code']}"


def try_stores(*, sample: int, seed: int, budget_seconds: float, workers: int, state: Path = STATE) -> float:
    """The share of a sample of the bugs that the tests notice."""
    state.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        running = [stack.enter_context(running_worker()) for _ in range(workers)]
        trial = prepare(running, state, TESTS, budget_seconds)
        bugs = list_bugs()
        chosen = sorted(bugs.found, key=lambda bug: hashlib.sha256(f"{seed} {bug.name}".encode()).digest())[:sample]
        results = try_all(running, trial, chosen)
        require_green(running[0], trial, results)
    return report(bugs, chosen, results)


def prepare(workers: Sequence[Worker], state: Path, files: Sequence[str], budget_seconds: float) -> Trial:
    """Learns which test runs what, and reads what earlier runs have tried."""
    path = state / "lines.jsonl"

    def learn(worker: Worker, file: str) -> None:
        started = time.monotonic()
        count = learn_file(worker, file, path)
        print(f"{file}: what {count} tests run is learned ({time.monotonic() - started:.0f} s)", flush=True)

    known = {learned.file for learned in read_learned(path)}
    share(workers, [file for file in files if file not in known], learn)
    learned = [learned for learned in read_learned(path) if learned.file in files]
    trial = Trial(learned, budget_seconds, read_equivalents(), state / "tried-python.jsonl")
    tests = {learned.test for learned in trial.learned}
    for line in trial.path.read_text(encoding="utf-8").splitlines() if trial.path.exists() else ():
        tried = json.loads(line)
        if tried["result"] in tests:  # as it is now
            trial.caught[tried["digest"]] = tried["result"]
            trial.noticed[tried["result"]] += 1
    return trial


def learn_file(worker: Worker, file: str, path: Path) -> int:
    """Runs the tests of one file (or one test) and writes down which lines they run; returns how many tests passed."""
    called = worker.directory / "called.jsonl"
    called.unlink(missing_ok=True)
    answer = worker.ask(600.0, "-p", "tests.mutants.reached_lines", file)
    lines = called.read_text(encoding="utf-8").splitlines() if called.exists() else []
    if answer["code"] != 0:
        print(f"{file}: pytest ended with {answer['code']}; without {answer['failed']}\n{answer['output']}", flush=True)
    digest, slower = digest_of(file.split("::", 1)[0]), slowness()
    with path.open("a", encoding="utf-8") as learned:
        for line in map(json.loads, lines):
            learned.write(json.dumps(line | {"digest": digest, "seconds": round(line["seconds"] / slower, 3)}) + "\n")
    return len(lines)


def read_learned(path: Path) -> list[Learned]:
    """What was learned of tests whose files, and the modules, have not changed since; the last word on each."""
    found: dict[str, Learned] = {}
    digests: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        one = json.loads(line)
        learned = Learned(one["test"], one["seconds"], {module: frozenset(lines) for module, lines in one["lines"].items()})
        if one["digest"] == digests.setdefault(learned.file, digest_of(learned.file)):
            found[learned.test] = learned
    return list(found.values())


def digest_of(file: str) -> str:
    """Of a test file and the modules: another line may have the number of a line that was learned."""
    paths = [REPOSITORY / file, *map(source_of, MODULES)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths if path.exists())).hexdigest()


def try_all(workers: Sequence[Worker], trial: Trial, bugs: Sequence[PythonBug]) -> dict[PythonBug, str]:
    results: dict[PythonBug, str] = {}

    def attempt(worker: Worker, bug: PythonBug) -> None:
        started = time.monotonic()
        results[bug] = result = trial.try_bug(worker, bug)
        seconds = time.monotonic() - started
        print(f"[{len(results)}/{len(bugs)}] {bug.name}: {result} ({seconds:.1f} s)", flush=True)

    share(workers, bugs, attempt)
    return results


def require_green(worker: Worker, trial: Trial, results: dict[PythonBug, str]) -> None:
    """The tests that noticed pass without any bug. Raises MutantsBrokenError if one fails there too: it shows nothing."""
    noticed = set(results.values())
    tests = [learned for learned in trial.learned if learned.test in noticed]
    if tests and (failed := first_failure(worker, tests)):
        raise MutantsBrokenError(f"{failed} fails without any mutant.")
    print(f"the {len(tests)} tests that noticed pass without a bug", flush=True)


def read_equivalents(path: Path = EQUIVALENTS) -> frozenset[tuple[str, str, str]]:
    """The bugs that change nothing anybody can see."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("python", [])
    return frozenset((one["function"], one["line"], one["becomes"]) for one in listed)


def report(bugs: Bugs, sample: Sequence[PythonBug], results: dict[PythonBug, str]) -> float:
    """Prints the survivors and the score; equivalent bugs do not count."""
    survivors = sorted((bug for bug, result in results.items() if result == SURVIVED), key=lambda bug: bug.name)
    for bug in survivors:
        print(f"SURVIVED {bug.name}\n    {bug.path.relative_to(REPOSITORY)}:{bug.lines.start}\n    {bug.line}\n    {bug.becomes}")
    equivalent_count = list(results.values()).count(EQUIVALENT)
    without_test = sum(result == HANGS or result.startswith("pytest ended") for result in results.values())
    counted = len(results) - equivalent_count
    score = 100.0 * (counted - len(survivors)) / counted if counted else 100.0
    print(
        f"{counted - len(survivors)} of {counted} mutants of {', '.join(MODULES)} caught: {score:.1f} %, {without_test} of them "
        f"because the tests hung or broke; {equivalent_count} more are equivalent; {len(bugs.found) - len(sample)} of "
        f"{len(bugs.found)} were not in the sample; {bugs.in_words} that only change what an error or an event says are not tried",
        flush=True,
    )
    return score
