"""Bugs in Python modules that work on stores: which there are, and how they are tried."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from tests.mutants.python_bugs import Bugs, PythonBug, list_bugs, source_of
from tests.mutants.store_mutation import (
    EQUIVALENTS,
    SURVIVED,
    Learned,
    Trial,
    first_failure,
    learn_file,
    read_equivalents,
    read_learned,
    report,
    try_all,
)
from tests.mutants.workers import TEMPLATE, Worker, worker_in

pytestmark = pytest.mark.thorough

NOTICES = "tests/integration/test_pipe.py::test_a_source_that_fails_mid_stream_never_looks_like_a_whole_copy"
PASSES = "tests/integration/test_pipe.py::test_rows_and_bytes_are_counted_where_they_arrive"


@pytest.fixture(scope="module")
def bugs() -> Bugs:
    return list_bugs(("stores.binary_copy.pipe",))


@pytest.fixture
def worker(clusters: Mapping[str, Cluster], template: str, tmp_path: Path) -> Iterator[Worker]:
    """With clusters of this run."""
    assert template == TEMPLATE
    with worker_in(tmp_path, clusters) as worker:
        yield worker


def find(bugs: Bugs, line: str, becomes: str) -> PythonBug:
    (bug,) = (bug for bug in bugs.found if (bug.line, bug.becomes) == (line, becomes))
    return bug


def test_each_bug_is_in_one_statement_and_in_no_words(bugs: Bugs) -> None:
    """One line of the module became another, and it is Python still; what an error says is left as it is, and counted."""
    whole = source_of("stores.binary_copy.pipe").read_text()
    assert len({bug.name for bug in bugs.found}) == len(bugs.found) > 100
    for bug in bugs.found:
        ast.parse(bug.text)
        assert bug.text != whole
        assert "errors." not in bug.line
    assert bugs.in_words > 0


def test_a_bug_is_tried_by_the_tests_that_run_its_line(bugs: Bugs) -> None:
    """Else by those that run its function; those first that noticed most, then the quickest, as long as the budget lasts."""
    bug = find(bugs, "self.sender_failed = True", "self.sender_failed = False")
    other_line = bug.lines.start - 1
    learned = [
        Learned(name, seconds, {"stores.binary_copy.pipe": frozenset(lines)})
        for name, seconds, lines in (
            ("slow", 9.0, bug.lines),
            ("quick", 1.0, bug.lines),
            ("runs another line", 0.1, [other_line]),
            ("runs another module", 0.1, []),
        )
    ]
    trial = Trial(learned, 60.0, frozenset(), Path())
    assert [one.test for one in trial.tests_of(bug)] == ["quick", "slow"]
    trial.noticed["slow"] += 1
    assert [one.test for one in trial.tests_of(bug)] == ["slow", "quick"]
    trial.budget_seconds = 5.0
    assert [one.test for one in trial.tests_of(bug)] == ["slow"]
    trial.learned = learned[2:]
    assert [one.test for one in trial.tests_of(bug)] == ["runs another line"]


def test_a_bug_survives_exactly_where_no_test_notices(
    worker: Worker, bugs: Bugs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Although the process that forks has the module imported. Afterwards the module is whole again, and the next run knows the outcome."""
    bug = find(bugs, "self.sender_failed = True", "self.sender_failed = False")
    lines = {"stores.binary_copy.pipe": frozenset(bug.lines)}
    tried = tmp_path / "tried.jsonl"
    for test, result, score in ((PASSES, SURVIVED, 0.0), (NOTICES, NOTICES, 100.0)):
        learned = [Learned(test, 5.0, lines)]
        results = try_all([worker], Trial(learned, 30.0, frozenset(), tried), [bug])
        assert results == {bug: result}
        assert report(bugs, [bug], results) == score
        assert first_failure(worker, learned) == ""
    assert f"{len(bugs.found) - 1} of {len(bugs.found)} were not in the sample" in capsys.readouterr().out
    assert json.loads(tried.read_text())["result"] == NOTICES


def test_the_lines_of_a_test_are_learned_by_running_it(worker: Worker, tmp_path: Path) -> None:
    """Threads included; what was learned of a test file that changes is forgotten."""
    file, path = NOTICES.split("::", 1)[0], tmp_path / "lines.jsonl"
    assert learn_file(worker, NOTICES, path) == 1
    (learned,) = read_learned(path)
    assert learned.file == file
    run = [
        number
        for number, line in enumerate(source_of("stores.binary_copy.pipe").read_text().splitlines(), 1)
        if "self.error = error" in line
    ]
    assert not learned.lines["stores.binary_copy.pipe"].isdisjoint(run), "the sender is a thread"
    assert not learned.lines["hops.planning"]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digest": "another"}))
    assert read_learned(path) == []


def test_bugs_that_are_listed_as_equivalent_are_bugs_that_can_be_made() -> None:
    """A change of a function needs a new look at its list."""
    modules = {function.removeprefix("relaybox.").rsplit(".", 1)[0] for function, *_ in read_equivalents()}
    possible = {bug.site for bug in list_bugs(modules).found}
    assert sorted(read_equivalents() - possible) == []
    assert all(one["why"].strip() for one in tomllib.loads(EQUIVALENTS.read_text())["python"])
