"""Which tests call which function of the stores: learned by running them once, and kept in .mutants/ for the next time."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tests.mutants.mutants import REPOSITORY
from tests.mutants.workers import Worker
from tests.support.patience import slowness

FUNCTIONS = REPOSITORY / "sql" / "functions"


@dataclass(frozen=True)
class Calls:
    """Test -> the functions it calls, and the seconds it takes on a quiet machine."""

    functions: Mapping[str, frozenset[str]]
    seconds: Mapping[str, float]

    def tests_of(self, function: str, budget_seconds: float, noticed: Mapping[str, int] = MappingProxyType({})) -> list[str]:
        """The tests that may notice a bug of a function, as many as the budget allows.

        First those that call it, then those that call a function which names it, then those whose file names it: Postgres does not
        count a call that ends with an error. Each time those come first that noticed most bugs per second so far, then the quickest of
        each file, then the second of each: tests of one file look at the same.
        """
        callers = _functions_that_name(function)
        ranked: list[tuple[int, float, int, float, str]] = []
        of_file: Counter[tuple[int, str]] = Counter()
        for test, called in sorted(self.functions.items(), key=lambda item: self.seconds[item[0]]):
            file = test.split("::", 1)[0]
            if function in called:
                rank = 0
            elif called & callers:
                rank = 1
            elif _file_names(file, function):
                rank = 2
            else:
                continue
            of_file[rank, file] += 1
            seconds = self.seconds[test]
            ranked.append((rank, -noticed.get(test, 0) / max(seconds, 0.1), of_file[rank, file], seconds, test))
        chosen, spent = [], 0.0
        for *_, seconds, test in sorted(ranked):
            spent += seconds
            if chosen and spent > budget_seconds:
                break
            chosen.append(test)
        return chosen


@cache
def _file_names(file: str, function: str) -> bool:
    return re.search(rf"\b{function}\b", (REPOSITORY / file).read_text(encoding="utf-8")) is not None


def _functions_that_name(function: str) -> set[str]:
    """The functions from which a call of this one may come."""
    named = re.compile(rf"\brelaybox\.{function}\b")
    return {path.stem for path in FUNCTIONS.rglob("*.sql") if path.stem != function and named.search(path.read_text())}


def read_calls(path: Path) -> Calls:
    """What was learned of tests that have not changed since."""
    functions, seconds = {}, {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        learned = json.loads(line)
        file, _, function = learned["test"].partition("[")[0].partition("::")
        if (REPOSITORY / file).exists() and learned["digest"] == digests_of(file).get(function):
            functions[learned["test"]] = frozenset(learned["functions"])
            seconds[learned["test"]] = learned["seconds"]
    return Calls(functions, seconds)


def unlearned_tests(path: Path, selected: Iterable[str]) -> dict[str, list[str]]:
    """File -> its tests that are not learned as they are now, of the files below the selected ones."""
    known = {test.partition("[")[0] for test in read_calls(path).functions}
    found: list[str] = []
    for name in selected:
        site = REPOSITORY / name
        files = sorted(site.rglob("test_*.py")) if site.is_dir() else [site]
        found += [str(file.relative_to(REPOSITORY)) for file in files]
    tests = {
        file: [f"{file}::{test}" for test in digests_of(file) if f"{file}::{test}" not in known] for file in dict.fromkeys(found)
    }
    return {file: left for file, left in tests.items() if left}


def learn_tests(worker: Worker, tests: Iterable[str], path: Path, seconds: float) -> int:
    """Runs tests of one file and writes down what they call; returns how many did, each set of parameters counted."""
    called = worker.directory / "called.jsonl"
    called.unlink(missing_ok=True)
    with worker.learning():
        worker.ask(seconds, "-p", "tests.mutants.called_functions", *tests)
    lines = called.read_text(encoding="utf-8").splitlines() if called.exists() else []
    slower = slowness()
    with path.open("a", encoding="utf-8") as learned:
        for line in map(json.loads, lines):
            file, _, function = line["test"].partition("[")[0].partition("::")
            added = {"digest": digests_of(file)[function], "seconds": round(line["seconds"] / slower, 3)}
            learned.write(json.dumps(line | added) + "\n")
    return len(lines)


def digests_of(file: str) -> Mapping[str, str]:
    """Test function -> digest of its source: another test of the file may change."""
    return _digests_of((REPOSITORY / file).read_text(encoding="utf-8"))


@cache
def _digests_of(source: str) -> Mapping[str, str]:
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    lines = source.splitlines()
    first = {node.name: min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) for node in functions}
    texts = {node.name: "\n".join(lines[first[node.name] - 1 : node.end_lineno]) for node in functions}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
