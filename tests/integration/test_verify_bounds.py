"""Verification of a stream of which everything is wrong: what is found is counted, and only the first examples are held in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.streams import STORE
from tests.support.world import World

FOUND = 1_500_000
LIMIT_KIB = 60_000
"""All examples as one array are more than 100 MB. The server sorts them in files, with the work_mem that the test sets."""


@pytest.mark.parametrize(
    ("check", "finder"), [("check_stream", "find_before_cause"), ("check_decisions", "find_wrong_subscriptions")]
)
def test_a_check_that_finds_millions_of_violations_holds_five_of_them(world: World, check: str, finder: str) -> None:
    """The first five by their place, whatever the order in which they are found; each kind by itself."""
    world.query(
        STORE,
        f"""
        create or replace function relaybox_internal.{finder}(stream_name text)
        returns table (kind text, at bigint, example text) language sql stable as $$
            select 'many', {FOUND} - n, 'found at ' || {FOUND} - n from generate_series(1, {FOUND}) n
            union all select 'few', n, 'few at ' || n from unnest(array[7, 3]) n
        $$
        """,
    )
    world.query(STORE, f"alter function relaybox_internal.{check}(text) set work_mem = '1MB'")
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        ((pid,),) = cursor.fetchall()
        before = peak_kib(pid)
        cursor.execute(f"select * from relaybox_internal.{check}('flights') order by kind")
        assert cursor.fetchall() == [
            ("few", 2, ["few at 3", "few at 7"]),
            ("many", FOUND, [f"found at {place}" for place in range(5)]),
        ]
        assert peak_kib(pid) - before < LIMIT_KIB


def peak_kib(pid: int) -> int:
    """The most memory that a process of this machine has had."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
