"""An outbox that has headers that it would refuse now is upgraded, and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.support.world import World
from tests.upgrades.pictures import PICTURES, restore

pytestmark = pytest.mark.thorough

LATEST = PICTURES[-1]
INSERT = "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', %s, %s)"
HOSTILE = ['{"n": 1e5000}', f'{{"n": {"[" * 1500}{"]" * 1500}}}']
STATE = """
select bool_and(convalidated) from pg_constraint
where conname = 'message_is_accepted' and contype = 'c'
"""


@pytest.fixture
def older(databases: Mapping[str, Any], tmp_path: Path) -> World:
    assert databases
    return restore(LATEST, tmp_path)


def test_a_store_that_has_such_messages_is_upgraded_and_takes_no_new_ones(older: World) -> None:
    """In a segment and where no segment covers them. The next segments are made, also of what no segment covered."""
    older.query("airline", INSERT, "in a segment", HOSTILE[0])
    older.query("airline", "select setval('relaybox.outbox_seq', 100000000)")
    older.query("airline", INSERT, "in the overflow", HOSTILE[1])
    older.initialise()
    assert older.value("airline", STATE) is False
    for headers in HOSTILE:
        with pytest.raises(psycopg2.errors.CheckViolation):
            older.query("airline", INSERT, "refused", headers)
    older.query("airline", "select relaybox_internal.ensure_outbox_segments()")
    assert older.value("airline", "select count(*) from relaybox_internal.outbox_overflow") == 0
    older.query("airline", INSERT, "taken", '{"n": 1}')
    kept = older.query(
        "airline", "select payload from relaybox.outbox where seq >= 100000000 or headers->'n' = '1e5000' order by seq"
    )
    assert [payload for (payload,) in kept] == ["in a segment", "in the overflow", "taken"]
    older.initialise()


def test_a_store_without_such_messages_has_the_constraints_of_a_new_one(older: World) -> None:
    older.initialise()
    assert older.value("airline", STATE) is True
