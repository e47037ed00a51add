"""Single-token bugs in SQL functions: which there are, and how they are tried."""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from tests.mutants.calls import Calls, digests_of, learn_tests, read_calls, unlearned_tests
from tests.mutants.sql_mutation import AREAS, EQUIVALENTS, Trial, list_bugs, read_equivalents, try_area
from tests.mutants.sql_tokens import mutate
from tests.mutants.workers import TEMPLATE, Worker, worker_in
from tests.support.administration import administer_all

pytestmark = pytest.mark.thorough

FUNCTION = """
-- a <= b here, and for update there, is a comment
create or replace function f() returns void language plpgsql as $$
begin
    if a <= b and c then
        raise exception using errcode = 'RB001', message = 'x <= y';
    end if;
    select coalesce(max(n + 1), 0) into x from t where (t.a = 1 and t.b) and t.c > 2 order by t.d desc for update;
    update t set a = least(1, 2), words = 'b and c', found = '^(a|b){1,2}$' and d;
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
        "line 9: condition lost: d",
        "line 9: least( -> greatest(",
        "line 9: statement lost: update t set a = least(1, 2), words = 'b and c', found = '^(",
    ]


@pytest.fixture
def worker(clusters: Mapping[str, Cluster], template: str, tmp_path: Path) -> Iterator[Worker]:
    """It breaks the stores of this run's own clusters for a moment, and has a test imported, as the runs of the sampler have."""
    assert template == TEMPLATE
    with worker_in(tmp_path, clusters, ["tests/integration/test_pollers.py"]) as worker:
        yield worker


def test_a_bug_survives_exactly_where_no_test_notices(worker: Worker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tried by the test of its function, by one that never asks it, and by one that fails anyway. Afterwards the function is whole again."""
    options = Namespace(function=["hop_is_driven"], sample=1, seed=1)
    state = tmp_path / "tried.jsonl"
    red = "tests/integration/test_red.py::test_red"
    (worker.repository / red.partition("::")[0]).write_text("def test_red():\n    assert False\n")
    pollers = "tests/integration/test_pollers.py::test_"
    blind = f"{pollers}only_the_routed_backlog_of_a_hop_is_work"
    seeing = f"{pollers}a_driver_of_the_hop_is_seen_in_its_own_database_only"
    for tests, score in (([blind], 0.0), ([red, blind], 0.0), ([red, seeing], 100.0)):
        calls = Calls(dict.fromkeys(tests, frozenset({"hop_is_driven"})), dict(zip(tests, (1.0, 2.0), strict=False)))
        assert try_area([worker], Trial(calls, 60.0, frozenset(), state), "hops", options) == score
        assert not worker.first_failure(tests[-1:])
        assert ("SURVIVED hops/hop_is_driven, line " in capsys.readouterr().out) == (score == 0.0)
    assert json.loads(state.read_text())["result"] == seeing, "the next run knows it already"


@pytest.fixture
def counted(worker: Worker) -> Iterator[Worker]:
    """It counts calls of functions."""
    administer_all(worker.clusters, "alter system set track_functions = 'all'")
    administer_all(worker.clusters, "select pg_reload_conf()")
    yield worker
    administer_all(worker.clusters, "alter system reset track_functions")
    administer_all(worker.clusters, "select pg_reload_conf()")


def test_the_tests_of_a_function_are_learned_by_running_them(counted: Worker, tmp_path: Path) -> None:
    """Each test with what it calls, on record for the next run; a test that changes is learned again, the others of its file are not."""
    file, learned = "tests/integration/test_pollers.py", tmp_path / "calls.jsonl"
    tests = [f"{file}::{name}" for name in digests_of(file)]
    asking = f"{file}::test_a_driver_of_the_hop_is_seen_in_its_own_database_only"
    assert unlearned_tests(learned, [file]) == {file: tests}
    assert learn_tests(counted, [asking], learned, seconds=60.0) == 1
    assert unlearned_tests(learned, [file]) == {file: [test for test in tests if test != asking]}
    assert read_calls(learned).tests_of("hop_is_driven", 60.0) == [asking]
    assert "hop_is_driven" in read_calls(learned).functions[asking], "counted, not only named in its file"
    learned.write_text(learned.read_text().replace(digests_of(file)[asking.partition("::")[2]], "another"))
    assert unlearned_tests(learned, [file]) == {file: tests}


def test_bugs_that_are_listed_as_equivalent_are_bugs_that_can_be_made() -> None:
    """A change of the function needs a new look at its list."""
    possible = {bug.site for area in AREAS for bug in list_bugs(area)}
    assert sorted(read_equivalents() - possible) == []
    assert all(one["why"].strip() for one in tomllib.loads(EQUIVALENTS.read_text()).get("equivalent", []))
