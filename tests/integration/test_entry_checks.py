"""What every function that writes a ledger asks first: is this a writable primary, and does its COMMIT wait for the disk?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg2
import pytest

from tests.support.world import World

PUBLISH = "relaybox_internal.publish_batch(1, 1, {batch}, '{plan_id}', {first_position}, {last_position}, 1, {system_identifier}, {timeline})"

NEEDS_PRIMARY: Mapping[str, tuple[str, ...]] = {
    "airline": (
        "relaybox_internal.lock_hop('flights/1')",
        "relaybox_internal.confirm_received('flights/1', 1, '{plan_id}', now(), 'test')",
        "relaybox_internal.confirm_processed('flights/1', 1, now(), 'test')",
        "relaybox_internal.confirm_settled('flights/1', 1, now(), 'test')",
        "relaybox_internal.retire_topics('flights/1', '{{other}}', 'why', 'test')",
        "relaybox_internal.compact_hop_ledgers('flights/1')",
        "relaybox_internal.drop_oldest_segment(null, 'test')",
        "relaybox_internal.add_topics('flights/1', '{{other}}')",
    ),
    "hub": (
        PUBLISH,
        "relaybox_internal.begin_generation(1, 1)",
        "relaybox_internal.durable_arrival(1)",
        "relaybox_internal.retire_hop('flights/2', 'why', 'test')",
        "relaybox_internal.processed_reading('flights/1', '{{}}')",
        "relaybox_internal.deliver_next(1)",
        "relaybox_internal.compact_log_ledgers(1)",
        "relaybox_internal.drop_oldest_segment(1, 'test')",
        "relaybox_internal.begin_attach(1, 'test')",
        "relaybox_internal.finish_attach(1, 0, 1, 'test')",
        "relaybox_internal.begin_detach(1, 'test')",
        "relaybox_internal.release_detached(1, 'test')",
        "relaybox_internal.ensure_log_segments(1, 1)",
        "relaybox_internal.skip_gap('flights', 'pump', 1, 'why', 'test')",
    ),
}
LOCAL = ("compact", "drop_oldest", "finish_attach")
"""What these rest on is durable already: they wait for their own disk, and for no standby."""
ANY = ("add_topics", "begin_attach", "begin_detach", "release_detached", "ensure_log_segments", "skip_gap")
"""In the transaction of a caller that waits, or nothing rests on them."""
ALSO_DURABLE = {
    "airline": ("relaybox.declare_sender('pump', 'gapless')", "relaybox.new_epoch('pump')"),
    "hub": ("relaybox_internal.remember_senders(1, pg_current_snapshot(), '[]')",),
}


@pytest.fixture
def calls(world: World) -> dict[str, list[str]]:
    """One batch is moved; the calls of each store, with its names filled in."""
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    world.send("a")
    world.transfer()
    world.query("hub", "select relaybox_internal.record_hops_of_file('{}', 'test')")
    (batch,) = world.value("airline", "select jsonb_agg(b) from relaybox_internal.batch b")
    return {store: [f"select * from {call.format(**batch)}" for call in texts] for store, texts in NEEDS_PRIMARY.items()}


def named(call: str, names: tuple[str, ...]) -> bool:
    return any(f".{name}" in call for name in names)


def test_g7_each_commit_waits_whatever_the_role_says(world: World, calls: dict[str, list[str]]) -> None:
    """A role or a database may have synchronous_commit off; a plan, an arrival, a confirmation and a decision do not."""
    for store, texts in calls.items():
        for call in [*texts, *(f"select {also}" for also in ALSO_DURABLE[store])]:
            if named(call, ANY):
                continue
            with world.session(store) as session, session.cursor() as cursor:
                cursor.execute("set synchronous_commit = off")
                cursor.execute(call)
                cursor.execute("show synchronous_commit")
                assert cursor.fetchone() == ("local" if named(call, LOCAL) else "on",), call


def test_no_ledger_is_written_where_a_snapshot_or_a_commit_cannot_be_trusted(world: World, calls: dict[str, list[str]]) -> None:
    """Each function checks this itself, before anything else: its caller may be connected to a standby."""
    refuse = """
    create or replace function relaybox_internal.require_writable_primary() returns void language plpgsql as
    $$ begin raise exception using errcode = 'RB001', message = 'asked'; end $$
    """
    for store, texts in calls.items():
        world.query(store, refuse)
        for call in texts:
            asked: Any
            with pytest.raises(psycopg2.Error, match="asked") as asked:
                world.query(store, call)
            assert asked.value.pgcode == "RB001", call
