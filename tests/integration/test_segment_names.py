"""Segments of outbox and logs: made once although two drivers make them, and named beyond a million of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.patience import patience
from tests.support.world import World, wait_until

ROWS = 10
"""Of a segment, in these stores."""
MILLIONTH = 1_000_000 * ROWS


@pytest.fixture
def small(world: World) -> World:
    world.cut_small_segments()
    return world


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_two_drivers_at_the_border_of_a_log_segment_make_it_once(small: World, isolation: str) -> None:
    """Both look before the first one commits: the second one waits for it, and makes what is left."""
    make = "select relaybox_internal.ensure_log_segments(1, %s)"
    with small.session("hub") as first, small.session("hub") as second, ThreadPoolExecutor(1) as pool:
        second.set_session(isolation_level=isolation)
        with first.cursor() as cursor, second.cursor() as late:
            cursor.execute(make, (2 * ROWS,))
            assert cursor.fetchone() == (["log_1_s000002", "log_1_s000003"],)
            waiting = pool.submit(late.execute, make, (3 * ROWS,))
            pid = second.info.backend_pid
            waits = "select count(*) from pg_locks where pid = %s and not granted and locktype = 'relation'"
            wait_until(lambda: small.value("hub", waits, pid) == 1, "the second driver waits for the first one")
            first.commit()
            waiting.result(timeout=patience(30))
            assert late.fetchone() == (["log_1_s000004"],)
            second.commit()


def test_segments_of_a_log_have_names_beyond_a_million(small: World) -> None:
    """`lpad` cuts what is too long: segments 1,000,000 to 1,000,009 had the name of segment 100,000."""
    small.query("hub", "update relaybox_internal.hop_in set published_position = %s", MILLIONTH - 1)
    make = "select relaybox_internal.ensure_log_segments(1, %s)"
    made = small.value("hub", make, MILLIONTH + 2 * ROWS)
    assert made == ["log_1_s999999", "log_1_s1000000", "log_1_s1000001", "log_1_s1000002", "log_1_s1000003"]
    assert small.value("hub", make, MILLIONTH + 2 * ROWS) == []
    newest = (
        "select array[first, last] from relaybox_internal.segments() where segment = 'relaybox_internal.log_1_s1000003'::regclass"
    )
    assert small.value("hub", newest) == [MILLIONTH + 3 * ROWS, MILLIONTH + 4 * ROWS - 1]


def test_messages_pass_through_outbox_segments_beyond_a_million(small: World) -> None:
    """Sent, moved, and dropped by retention when they are done with."""
    small.query("airline", "select setval('relaybox.outbox_seq', %s)", MILLIONTH - 5)
    small.query("airline", "select relaybox_internal.ensure_outbox_segments()")
    for number in range(4):
        small.send(*(f"{number}.{n}" for n in range(ROWS)))
        small.transfer()
    names = [
        name
        for (name,) in small.query(
            "airline", "select c.relname from relaybox_internal.segments() s join pg_class c on c.oid = s.segment"
        )
    ]
    assert {f"outbox_s{number}" for number in (999_999, 1_000_000, 1_000_001, 1_000_002, 1_000_003)} <= set(names)
    assert small.value("airline", "select count(*) from relaybox_internal.outbox_overflow") == 0
    assert len(small.payloads("flights/1")) == 4 * ROWS
