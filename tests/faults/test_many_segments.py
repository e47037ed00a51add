"""More than 300 segments of a log, expiring messages, and a late row of a segment that all others have passed: each message once."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
import pytest

from relaybox.hops.sealing import NOTHING_NOTED, seal_segments
from tests.support.world import World, insert, wait_until

pytestmark = pytest.mark.thorough

STORE = "hub"
MESSAGES = 3_200
"""In segments of ten rows: fetches are planned for their values from 300 segments on (plan_for_log)."""
FEW = 100
EXPIRED = "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', 'expired', '{\"relaybox-expires-at\": 1}')"


def read_on(session: Any, at_most: int) -> list[tuple[int, str]]:
    """Fetches and acknowledges, in one transaction each, until nothing is there or so many are read."""
    found: list[tuple[int, str]] = []
    with session.cursor() as cursor:
        while len(found) < at_most:
            cursor.execute("select stream_position, payload from relaybox.fetch('billing', 100)")
            rows = cursor.fetchall()
            if not rows:
                session.rollback()
                break
            cursor.execute("select relaybox.ack('billing', %s)", (rows[-1][0],))
            session.commit()
            found += rows
    return found


def sealed_through(world: World) -> int:
    with world.store_session() as source:
        seal_segments(source, seal_segments(source, NOTHING_NOTED))
    return int(world.value("airline", "select coalesce(max(last_seq), -1) from relaybox_internal.sealed_segment"))


def test_g2_a_late_row_of_the_first_segment_comes_once_to_consumers_of_hundreds_of_segments(world: World) -> None:
    """One session has fetched before there were many segments, the other begins then; the late row is committed last."""
    world.cut_small_segments()
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    world.query("airline", "select relaybox_internal.ensure_outbox_segments(%s)", MESSAGES // 10 + 20)
    with (
        world.session() as late,
        closing(psycopg2.connect(service=STORE)) as early,
        closing(psycopg2.connect(service=STORE)) as new,
    ):
        insert(late, "late")
        world.send_many(FEW)
        world.transfer()
        found = read_on(early, FEW)
        assert len(found) == FEW
        world.query("airline", EXPIRED)
        world.send_many(MESSAGES, prefix="n")
        world.transfer()
        assert sealed_through(world) < 0, "the transaction of the late row is open"
        found += read_on(new, MESSAGES // 2)
        with new.cursor() as cursor:
            cursor.execute("select current_setting('relaybox.many_segments')")
            assert cursor.fetchone() == ("on",)
        late.commit()
        world.send_many(20, prefix="z")
        world.transfer()
        wait_until(lambda: sealed_through(world) > MESSAGES, "all segments are sealed")  # a vacuum may hold one for a while
        found += read_on(early, MESSAGES)
        found += read_on(new, MESSAGES)
    wanted = [*(f"m{n}" for n in range(1, FEW + 1)), *(f"n{n}" for n in range(1, MESSAGES + 1)), *(f"z{n}" for n in range(1, 21))]
    assert sorted(payload for _, payload in found) == sorted([*wanted, "late"])
    assert [position for position, _ in found] == sorted(position for position, _ in found)
    assert world.query(STORE, "select stream_position, reason, state from relaybox.dead_letters") == [
        (FEW + 1, "expired", "open")
    ]
    assert not any(payload == "expired" for _, payload in found)
