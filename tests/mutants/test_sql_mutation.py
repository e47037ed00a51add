"""Single-token bugs in SQL functions: which there are, and how they are tried."""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from tests.mutants.calls import Calls, digest_of, files_to_learn, learn_file, read_calls
from tests.mutants.sql_mutation import AREAS, EQUIVALENTS, Trial, list_bugs, read_equivalents, try_area
from tests.mutants.sql_tokens import mutate
from tests.mutants.workers import TEMPLATE, Worker, worker_in

FUNCTION = """
-- a <= b here, and for update there, is a comment
create or replace function f() returns void language plpgsql as $$
begin
    if a <= b and c then
        raise exception using errcode = 'RB001', message = 'x <= y';
    end if;
    select coalesce(max(n + 1), 0) into x from t where (t.a = 1 and t.b) and t.c > 2 order by t.d desc for update;
    update t set a = least(1, 2);
end
$$;
"""


def test_each_token_that_decides_something_is_broken_once() -> None:
    """And nothing else: neither a comment nor the words of a refusal."""
    mutants = list(mutate(FUNCTION))
    assert len({mutant.text for mutant in mutants}) == len(mutants)
    assert all(mutant.text != FUNCTION and "message = 'x <= y'" in mutant.text for mutant in mutants)
    assert sorted(mutant.what for mutant in mutants) == [
        "line 5: <= -> <",
        "line 5: condition lost: c",
        "line 8: + 1 -> nothing",
        "line 8: > -> >=",
        "line 8: coalesce lost",
        "line 8: condition lost: (t.a = 1 and t.b)",
        "line 8: condition lost: t.b",
        "line 8: condition lost: t.c > 2",
        "line 8: desc -> asc",
        "line 8: for update -> nothing",
        "line 8: max( -> min(",
        "line 9: least( -> greatest(",
        "line 9: statement lost: update t set a = least(1, 2);",
    ]


@pytest.fixture
def worker(clusters: Mapping[str, Cluster], template: str, tmp_path: Path) -> Iterator[Worker]:
    """It breaks the stores of this run's own clusters for a moment."""
    assert template == TEMPLATE
    with worker_in(tmp_path, clusters) as worker:
        yield worker


def test_a_bug_survives_exactly_where_no_test_notices(worker: Worker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tried by the test of its function, and by one that never asks it. Afterwards the function is whole again."""
    options = Namespace(function=["hop_is_driven"], sample=1, seed=1)
    state = tmp_path / "tried.jsonl"
    for name, score in (
        ("only_the_routed_backlog_of_a_hop_is_work", 0.0),
        ("a_driver_of_the_hop_is_seen_in_its_own_database_only", 100.0),
    ):
        test = f"tests/integration/test_pollers.py::test_{name}"
        calls = Calls({test: frozenset({"hop_is_driven"})}, {test: 1.0})
        assert try_area([worker], Trial(calls, 10.0, frozenset(), state), "hops", options) == score
        assert not worker.first_failure([test])
        assert ("SURVIVED hops/hop_is_driven, line " in capsys.readouterr().out) == (score == 0.0)
    assert json.loads(state.read_text())["result"] == test, "the next run knows it already"


def test_the_tests_of_a_function_are_learned_by_running_them(worker: Worker, tmp_path: Path) -> None:
    """Each test with what it calls, on record for the next run; a test file that changes is learned again."""
    file, learned = "tests/integration/test_pollers.py", tmp_path / "calls.jsonl"
    assert files_to_learn(learned, [file]) == [file]
    assert learn_file(worker, file, learned, seconds=60.0) == 3
    assert files_to_learn(learned, [file]) == []
    (first, *_) = read_calls(learned).tests_of("hop_is_driven", 60.0)
    assert first == f"{file}::test_a_driver_of_the_hop_is_seen_in_its_own_database_only"
    learned.write_text(learned.read_text().replace(digest_of(file), "another"))
    assert files_to_learn(learned, [file]) == [file]


def test_bugs_that_are_listed_as_equivalent_are_bugs_that_can_be_made() -> None:
    """Whoever changes the function looks again at what its list says."""
    possible = {bug.place for area in AREAS for bug in list_bugs(area)}
    assert sorted(read_equivalents() - possible) == []
    assert all(one["why"].strip() for one in tomllib.loads(EQUIVALENTS.read_text()).get("equivalent", []))
