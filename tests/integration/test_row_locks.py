"""A function that decides on a row waits for the session that locks it, and decides on what was committed meanwhile."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest

from tests.support.breaking import transfer_until
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

REGISTER = "select relaybox_internal.register_hop_out('{hop}', 'hub', {upstream}, {topics}, 'cascade')"
PLAN_AGAIN = """
select relaybox_internal.record_batch(
    h.hop, null, h.lower, pg_current_snapshot(), 1, true, 0, 1, 1, '[[1, 1, 1, 1, 1]]', null, h.system_identifier, h.timeline, '9'::xid8
) from relaybox_internal.hop_out h where h.hop = 'flights/1'
"""
PUBLISH = """
select (relaybox_internal.publish_batch(
    1, 1, r.batch, r.plan_id, i.published_position + 1, i.published_position + sum(r.row_count)::bigint, count(*)::integer, 1, 1
)).batch
from relaybox_internal.receipt r join relaybox_internal.hop_in i using (log_id)
    where r.batch = 2 group by r.batch, r.plan_id, i.published_position
"""


@dataclass(frozen=True)
class Race:
    """A session has done `first` and not committed; `then` waits, and answers `answer` or is refused so (SQLSTATE: message)."""

    store: str
    first: str
    then: str
    answer: object
    check: str = "select true"
    before: str = "select true"


RACES = {
    "a generation never goes back": Race(
        "hub",
        "update relaybox_internal.hop_in set generation = 5",
        "select relaybox_internal.begin_generation(1, 3)",
        "RB014: .* in generation 3",
    ),
    "a batch is published once": Race("hub", PUBLISH, PUBLISH, 2),
    "a change of topics knows the one before": Race(
        "airline",
        "select relaybox_internal.change_topics('flights/1', '{flights,b}')",
        "select relaybox_internal.change_topics('flights/1', '{flights,c}')",
        True,
        "select exists (select from relaybox_internal.backlog where topics = '{b}' and state = 'unrouted')",
    ),
    "added topics join those added meanwhile": Race(
        "airline",
        "select relaybox_internal.change_topics('flights/1', '{flights,b}')",
        "select relaybox_internal.add_topics('flights/1', '{b,c}')",
        1,
        "select topics = '{b,c,flights}' from relaybox_internal.hop_out where hop = 'flights/1'",
    ),
    "what subscriptions have not processed is not settled": Race(
        "airline",
        "update relaybox_internal.hop_out set policy = 'processed', processed_by = '{billing}'",
        "select relaybox_internal.confirm_settled('flights/1', 9, now(), 'test')",
        0,
    ),
    "a plan follows the newest one": Race(
        "airline",
        "update relaybox_internal.hop_out set lower = pg_current_snapshot() where hop = 'flights/1'",
        PLAN_AGAIN,
        "RB005: .* does not follow",
        before="select relaybox_internal.confirm_received('flights/1', 2, plan_id, now(), 'test') from relaybox_internal.batch where batch = 2",
    ),
    "a hop is retired once": Race(
        "airline",
        "select relaybox_internal.retire_hop('flights/1', 'why', 'one')",
        "select relaybox_internal.retire_hop('flights/1', 'why', 'other')",
        False,
        before="select relaybox_internal.record_hops_of_file('{}', 'test')",
    ),
    "a hop that an init has in its file again is not retired": Race(
        "airline",
        "select relaybox_internal.record_hops_of_file('{flights/1}', 'one')",
        "select relaybox_internal.retire_hop('flights/1', 'why', 'other')",
        "RB006: hop flights/1 is in use: .* by one",
        before="select relaybox_internal.record_hops_of_file('{}', 'test')",
    ),
    "a topic that came is not given up": Race(
        "airline",
        "select relaybox_internal.change_topics('flights/1', '{flights,b}')",
        "select relaybox_internal.retire_topics('flights/1', '{b}', 'why', 'test')",
        "RB006: .* moves topic b",
    ),
    "a retired hop is not registered again": Race(
        "airline",
        "update relaybox_internal.hop_out set retired_at = now(), retired_by = 'one', retired_reason = 'why'",
        REGISTER.format(hop="flights/1", upstream="null", topics="'{flights}'"),
        "RB006: .* was retired by one",
    ),
    "a new hop reads no log whose beginning goes": Race(
        "hub",
        "update relaybox_internal.hop_in set first_kept_position = 2 where (select true from relaybox_internal.hop_in for update)",
        REGISTER.format(hop="longer/2", upstream="'flights/1'", topics="null"),
        "RB006: .* keeps no message below position 2",
    ),
    "rules that init is changing decide nothing": Race(
        "hub", "update relaybox_internal.stream set rules_pending = true", "select relaybox_internal.deliver_next(1)", "RB007: "
    ),
    "a stream that began to deliver keeps its rules": Race(
        "hub",
        "update relaybox_internal.stream set arrival_seq = 1",
        "select relaybox_internal.register_stream('flights/1', 'flights', 'airline', 'fifo', 0, 1, 1)",
        "RB006: .* was delivered here with order none",
    ),
    "init holds no stream that began to deliver": Race(
        "hub",
        "update relaybox_internal.stream set arrival_seq = 1",
        "select relaybox_internal.hold_stream('flights/1')",
        "RB006: .* began to deliver",
    ),
    "an ended subscription leaves no cursor": Race(
        "hub",
        "select from relaybox.fetch('billing', 1)",
        "select relaybox.unsubscribe('billing', 'why')",
        "",
        "select not exists (select from relaybox_internal.cursor) and not exists (select from relaybox_internal.lane)",
        before="select relaybox.subscribe('billing', 'flights')",
    ),
    "a replay of a subscription that was ended meanwhile is none": Race(
        "hub",
        "lock table relaybox_internal.stream in access exclusive mode; select relaybox.unsubscribe('billing', 'why')",
        "select (relaybox.replay('billing', 'earliest', 'why', dry_run => true)).replayed_as",
        "RB031: there is no subscription billing",
        before="select relaybox.subscribe('billing', 'flights')",
    ),
    "an epoch begins once": Race("airline", "select relaybox.new_epoch('pump')", "select relaybox.new_epoch('pump')", 3),
}


@pytest.fixture(scope="module")
def filled(make_template: Any) -> str:
    """One batch all the way to the hub, and one of which only the slices are there."""

    def fill(world: World) -> None:
        world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
        world.send("a")
        world.transfer()
        world.query("hub", "update relaybox_internal.stream set arrival_seq = 0")
        world.send("b")
        transfer_until(world.first_hop, lambda progress: progress.copied == 1 and progress.batch == 2)

    return make_template(fill)


@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_who_waited_decides_on_what_was_committed_meanwhile(filled: str, make_world: Any, race: Race) -> None:
    """Read and decide, or decide and write, without the row held in between: the one that comes second undoes the first."""
    with make_world(filled) as world, world.session(race.store) as first, ThreadPoolExecutor(1) as pool:
        world.query(race.store, race.before)
        with first.cursor() as cursor:
            cursor.execute(race.first)
        second = pool.submit(world.value, race.store, race.then)
        waiting = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        wait_until(lambda: second.done() or world.value(race.store, waiting), "the second waits for the first")
        first.commit()
        if isinstance(race.answer, str) and race.answer:
            with pytest.raises(psycopg2.Error) as refused:
                second.result(patience(60))
            assert re.match(race.answer, f"{refused.value.pgcode}: {refused.value}")
        else:
            assert second.result(patience(60)) == race.answer
        assert world.value(race.store, race.check)


DETACHED = """
insert into relaybox_internal.detached_segment (log_id, first, last, segment, state, directory, row_count, hash_sum, needed_by, begun_by,
moved_by)
values (1, 0, 9, 'log_1_s000000', 'detached', 'x', 9, 0, '{}', 'test', 'test')
"""
SUBSCRIBED = "select relaybox.subscribe('billing', 'flights')"
HELD = {
    "airline": (
        ("hop_out", "for update", "relaybox_internal.compact_hop_ledgers('flights/1')"),
        ("store", "for update", REGISTER.format(hop="new/1", upstream="null", topics="'{flights}'").removeprefix("select ")),
    ),
    "hub": (
        ("hop_in", "for key share", "relaybox_internal.compact_log_ledgers(1)"),
        ("stream", "for key share", "relaybox_internal.compact_log_ledgers(1)"),
        ("hop_in", "for key share", "relaybox_internal.release_detached(1, 'test')"),
        ("stream", "for key share", "relaybox_internal.release_detached(1, 'test')"),
        ("hop_in", "for update", REGISTER.format(hop="longer/2", upstream="'flights/1'", topics="null").removeprefix("select ")),
        ("subscription", "for update", "relaybox_internal.processed_reading('flights/1', '{billing}')"),
        ("stream", "for update", "relaybox.subscribe('audit', 'flights')"),
        ("stream", "for update", "relaybox.replay('billing', 'earliest', 'why')"),
    ),
}


def test_nobody_decides_on_a_row_that_another_one_holds(filled: str, make_world: Any) -> None:
    """Also where nothing of the row is changed: a subscription that begins, a hop that is planned, a ledger that is removed."""
    with make_world(filled) as world:
        for statement in (DETACHED, SUBSCRIBED):
            world.query("hub", statement)
        for store, cases in HELD.items():
            for table, strength, call in cases:
                with world.session(store) as holder, world.session(store) as other:
                    for session, statement in (
                        (holder, f"select from relaybox_internal.{table} {strength}"),
                        (other, "set lock_timeout = '100ms'"),
                    ):
                        with session.cursor() as cursor:
                            cursor.execute(statement)
                    with other.cursor() as cursor, pytest.raises(psycopg2.errors.LockNotAvailable):
                        cursor.execute(f"select {call}")


STAGED = """
create table relaybox_internal.log_1_s000000_attempt_1 as select * from relaybox_internal.log_1 where log_position <= 9;
insert into relaybox_internal.detached_segment (log_id, first, last, segment, state, directory, row_count, hash_sum, needed_by, begun_by,
moved_by)
select 1, 0, 9, 'log_1_s000000', 'detached', 'x', d.row_count, d.hash_sum, '{}', 'test', 'test'
from relaybox_internal.log_digest('relaybox_internal.log_1_s000000_attempt_1', 0, 9) d
"""
RETENTION_OF_A_LOG = {
    "compact_log_ledgers(integer)": "relaybox_internal.compact_log_ledgers(1)",
    "release_detached(integer, text)": "relaybox_internal.release_detached(1, 'test')",
    "finish_attach(integer, bigint, integer, text)": "relaybox_internal.finish_attach(1, 0, 1, 'test')",
}


@pytest.mark.parametrize("function", RETENTION_OF_A_LOG)
def test_retention_of_a_log_and_delivery_lock_in_one_order(filled: str, make_world: Any, function: str) -> None:
    """Delivery locks the stream, then the hop by the foreign key of its decision. Retention that locks the hop first is a deadlock."""
    with make_world(filled) as world, world.session("hub") as delivery, ThreadPoolExecutor(1) as pool:
        for statement in (PUBLISH, STAGED, f"alter function relaybox_internal.{function} set lock_timeout = '60s'"):
            world.query("hub", statement)
        with delivery.cursor() as cursor:
            cursor.execute("select from relaybox_internal.stream for no key update")
            retention = pool.submit(world.value, "hub", f"select {RETENTION_OF_A_LOG[function]}")
            waiting = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            wait_until(lambda: world.value("hub", waiting), "retention waits for the stream")
            cursor.execute("select (relaybox_internal.deliver_next(1)).batch")
            assert cursor.fetchone() == (2,)
        delivery.commit()
        retention.result(patience(60))
