"""Which tests call which function of the stores: learned by running them once, and kept in .mutants/ for the next time."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.mutants.mutants import REPOSITORY
from tests.mutants.workers import Worker
from tests.patience import slowness

FUNCTIONS = REPOSITORY / "sql" / "functions"


@dataclass(frozen=True)
class Calls:
    """Test -> the functions it calls, and the seconds it takes on a quiet machine."""

    functions: Mapping[str, frozenset[str]]
    seconds: Mapping[str, float]

    def tests_of(self, function: str, budget_seconds: float, noticed: Mapping[str, int] = MappingProxyType({})) -> list[str]:
        """The tests that may notice a bug of a function, as many as the budget allows.

        First those that call it, then those that call a function which names it, then those whose file names it: Postgres does not
        count a call that ends with an error. Each time those come first that noticed most bugs so far, then the quickest of each
        file, then the second of each: tests of one file look at the same.
        """
        callers = _functions_that_name(function)
        ranked: list[tuple[int, int, int, float, str]] = []
        of_file: Counter[tuple[int, str]] = Counter()
        for test, called in sorted(self.functions.items(), key=lambda item: self.seconds[item[0]]):
            file = test.split("::", 1)[0]
            if function in called:
                rank = 0
            elif called & callers:
                rank = 1
            elif re.search(rf"\b{function}\b", (REPOSITORY / file).read_text(encoding="utf-8")):
                rank = 2
            else:
                continue
            of_file[rank, file] += 1
            ranked.append((rank, -noticed.get(test, 0), of_file[rank, file], self.seconds[test], test))
        chosen, spent = [], 0.0
        for *_, seconds, test in sorted(ranked):
            spent += seconds
            if chosen and spent > budget_seconds:
                break
            chosen.append(test)
        return chosen


def _functions_that_name(function: str) -> set[str]:
    """The functions from which a call of this one may come."""
    named = re.compile(rf"\brelaybox\.{function}\b")
    return {path.stem for path in FUNCTIONS.rglob("*.sql") if path.stem != function and named.search(path.read_text())}


def read_calls(path: Path) -> Calls:
    """What was learned of tests whose files have not changed since."""
    functions, seconds = {}, {}
    digests = defaultdict(str)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        learned = json.loads(line)
        file = learned["test"].split("::", 1)[0]
        digests[file] = digests[file] or digest_of(file)
        if learned["digest"] == digests[file]:
            functions[learned["test"]] = frozenset(learned["functions"])
            seconds[learned["test"]] = learned["seconds"]
    return Calls(functions, seconds)


def files_to_learn(path: Path, selected: Iterable[str]) -> list[str]:
    """The test files below the selected ones that are not learned as they are now."""
    known = {test.split("::", 1)[0] for test in read_calls(path).functions}
    found: list[str] = []
    for name in selected:
        place = REPOSITORY / name
        files = sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
        found += [str(file.relative_to(REPOSITORY)) for file in files]
    return [file for file in dict.fromkeys(found) if file not in known]


def learn_file(worker: Worker, file: str, path: Path, seconds: float) -> int:
    """Runs the tests of one file and writes down what they call; returns how many tests did."""
    called = worker.directory / "called.jsonl"
    called.unlink(missing_ok=True)
    with worker.learning():
        worker.ask(seconds, "-p", "tests.mutants.called_functions", file)
    lines = called.read_text(encoding="utf-8").splitlines() if called.exists() else []
    digest, slower = digest_of(file), slowness()
    with path.open("a", encoding="utf-8") as learned:
        for line in map(json.loads, lines):
            learned.write(json.dumps(line | {"digest": digest, "seconds": round(line["seconds"] / slower, 3)}) + "\n")
    return len(lines)


def digest_of(file: str) -> str:
    return hashlib.sha256((REPOSITORY / file).read_bytes()).hexdigest()
