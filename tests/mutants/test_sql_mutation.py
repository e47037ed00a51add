"""Single-token bugs in SQL functions: which there are, and how they are tried."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from tests.mutants.sql_mutation import TEMPLATE, Called, run_tests, try_area
from tests.mutants.sql_tokens import mutate
from tests.stores import write_clusters

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


def test_a_bug_survives_exactly_where_no_test_notices(
    clusters: Mapping[str, Cluster], template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried by the test of its function, and by one that never asks it. Afterwards the function is whole again."""
    assert template == TEMPLATE
    write_clusters(tmp_path / "clusters.json", clusters)
    monkeypatch.setenv("RELAYBOX_TEST_CLUSTERS", str(tmp_path / "clusters.json"))
    options = Namespace(function=["hop_is_driven"], sample=1, seed=1, budget=10.0)
    for name, score in (
        ("a_driver_of_the_hop_is_seen_in_its_own_database_only", 100.0),
        ("only_the_routed_backlog_of_a_hop_is_work", 0.0),
    ):
        test = f"tests/integration/test_pollers.py::test_{name}"
        assert try_area(list(clusters.values()), Called({"hop_is_driven": [test]}, {test: 1.0}), "hops", options) == score
        assert run_tests(test) == ""
