"""Checks a change in under a minute: `python -m tests.support.changed [--since COMMIT] [--seconds 50] [--list]`, or `make check`.

The checks of `make lint`, and beside them the tests that belong to the changed files, nearest first, until the time is over.
It says how many tests it left out. Before you push, run `make test`.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW_PACKAGES = tuple(f"tests/{name}/" for name in ("airflow", "benchmarks", "faults", "model", "mutants", "spark"))
LARGEST_SELECTION = 20
"""Modules: to collect more takes too long."""


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when every check that ran is green."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="make check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", default="HEAD", metavar="COMMIT", help="check what differs from it (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=50.0, help="no test begins that would end later (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="only name the test modules, nearest first")
    options = parser.parse_args(arguments)
    files = changed_files(options.since)
    modules = select_modules(files)
    if options.list:
        print(*modules, sep="\n")
        return 0
    if not files:
        print(f"Nothing differs from {options.since}. ARGS='--since COMMIT' compares with an older commit.")
        return 0
    checks = subprocess.Popen(["make", "--no-print-directory", *lints_of(files)], cwd=ROOT)
    until = began + options.seconds
    tests = run_tests(modules[:LARGEST_SELECTION], until) if modules else 0
    if modules[LARGEST_SELECTION:]:
        print(f"{len(modules) - LARGEST_SELECTION} more test modules use what changed; make check ARGS=--list names them.")
    lint = checks.wait()
    print(
        f"make check: lint {_outcome(lint)}, tests {_outcome(tests)}, {time.monotonic() - began:.0f} s for {len(files)} changed files"
    )
    return lint or tests


def _outcome(code: int) -> str:
    return "red" if code else "green"


def changed_files(since: str) -> list[str]:
    """Files that differ from a commit, and new ones that git does not ignore."""
    differing = _git("diff", "--name-only", since)
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def lints_of(files: Sequence[str]) -> list[str]:
    """Arguments of make: those of the checks of `make lint` that can change; SQL, which is slow, only in the changed files."""
    sql = [file for file in files if file.endswith(".sql") and file.startswith("sql/") and (ROOT / file).exists()]
    python = ["lint-format", "lint-style", "lint-types", "lint-imports"]
    return [*python, *(["lint-sql", f"SQL={' '.join(sql)}"] if sql else [])]


def select_modules(files: Iterable[str]) -> list[str]:
    """The test modules that use a changed file, nearest first: by imports and names, then by what those are used by, and so on."""
    distances: dict[str, int] = {}
    waiting = list(files)
    words = {word for file in waiting for word in defined_names(file)}
    distance = 0
    while waiting:
        for file in waiting:
            distances.setdefault(file, distance)
        found = {user for file in waiting for user in users_of(file)}
        waiting = sorted(found - distances.keys())
        distance += 1
    modules = [file for file in distances if re.fullmatch(r"tests/.*/test_\w+\.py", file) and (ROOT / file).exists()]

    def rank(module: str) -> tuple[int, bool, bool, int, str]:
        named = len(words & _words(module))
        slow = module.startswith(SLOW_PACKAGES)
        return distances[module], slow, not module.startswith("tests/unit/"), -named, module

    return sorted(modules, key=rank)


def defined_names(file: str) -> set[str]:
    """Public functions and classes of a module; of other files, and of one that is gone, its name."""
    if not file.endswith(".py") or not (ROOT / file).exists():
        return {Path(file).stem}
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")}


@functools.cache
def users_of(file: str) -> set[str]:
    """Files that import a module; for SQL those that name the function or view; for all others the tests that name the file."""
    path = Path(file)
    users = set()
    if file.startswith(("plugins/", "tests/")) and file.endswith(".py"):
        users |= _importers(_dotted(path))
    elif file.startswith(("sql/functions/", "sql/views/")):
        users |= (
            _users_by_name().get(f"relaybox.{path.stem}", set()) | _users_by_name().get(f"relaybox_internal.{path.stem}", set())
        ) - {file}
    else:
        named = re.compile(rf"(?<![\w.]){re.escape(path.name)}\b")
        users |= {user for user, text in _texts().items() if user.startswith("tests/") and named.search(text)}
    if file.endswith(".md") or file.startswith("docs/"):
        users.add("tests/unit/test_documents.py")
    if file.startswith("sql/"):
        users.add("tests/integration/test_schema.py")
    if file.startswith("plugins/relaybox/cli/"):
        users.add("plugins/relaybox/cli/app.py")  # it imports the others by name, when their commands run
    if file.startswith(("dags/", "plugins/relaybox/airflow/dags/")):
        users.add("tests/airflow/test_dag_structure.py")
    return users


def _importers(module: str) -> set[str]:
    """A package that imports a module of its own stands for it."""
    found = _users_by_name().get(module, set())
    packages = {_dotted(Path(user)) for user in found if Path(user).name == "__init__.py"}
    return found.union(*(_importers(package) for package in packages if module.startswith(f"{package}.")))


def _dotted(path: Path) -> str:
    """plugins/relaybox/hops/planning.py -> relaybox.hops.planning."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "plugins" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _texts() -> dict[str, str]:
    searched = ("plugins/*.py", "dags/*.py", "spark_apps/*.py", "tests/*.py", "sql/functions/*.sql", "sql/views/*.sql")
    files = _git("ls-files", "--cached", "--others", "--exclude-standard", *searched)
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in files if (ROOT / file).exists()}


@functools.cache
def _words(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", (ROOT / file).read_text(encoding="utf-8")))


@functools.cache
def _users_by_name() -> dict[str, set[str]]:
    """By name: the files that import it or have it in a text. `relaybox.ack` is a function of SQL, `relaybox.errors` a module."""
    users: dict[str, set[str]] = defaultdict(set)
    for file, text in _texts().items():
        for name in re.findall(r"\b(?:relaybox(?:_internal)?|tests)(?:\.\w+)+", text):
            users[name].add(file)
        for module, names in re.findall(r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", text, flags=re.MULTILINE):
            for name in re.findall(r"\w+", names):
                users[f"{module}.{name}"].add(file)
    return users


class Budget:
    """A plugin of pytest: selects as many tests as there is time for, the first ones first, and remembers how long each takes."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.left_out = 0
        self.known: dict[str, float] = {}
        self.measured: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self.known = self._cache(config).get("relaybox/seconds", {})
        room = self.until - time.monotonic()
        chosen, others = [], []
        for item in items:
            seconds = self._expected(item)
            (chosen if seconds <= room else others).append(item)
            room -= seconds if seconds <= room else 0
        items[:] = chosen
        self.left_out = len(others)
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """What takes longer than it did leaves no time for the last ones: none of them begins, so that nothing is torn down twice."""
        if time.monotonic() + self._expected(item) > self.until:
            self.until = 0.0
        if self.until:
            return None
        self.left_out += 1
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.measured[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        # the least: the first test of a run starts the clusters
        least = {test: round(min(seconds, self.known.get(test, seconds)), 2) for test, seconds in self.measured.items()}
        self._cache(config).set("relaybox/seconds", self.known | least)
        if self.left_out:
            terminalreporter.write_line(f"{self.left_out} tests of these modules were left out: there is no time for them.")

    def _expected(self, item: pytest.Item) -> float:
        guess = 20.0 if item.nodeid.startswith(SLOW_PACKAGES) else 0.02 if item.nodeid.startswith("tests/unit/") else 1.0
        return self.known.get(item.nodeid, guess)

    @staticmethod
    def _cache(config: pytest.Config) -> pytest.Cache:
        assert config.cache is not None
        return config.cache


def run_tests(modules: Sequence[str], until: float) -> int:
    """Exit code of pytest; modules of which no test is left are no error."""
    code = int(pytest.main(["-q", "--no-header", "-x", *modules], plugins=[Budget(until)]))
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
