"""What a poller asks before it starts a driver: is there anything that a hop has not moved?"""

from __future__ import annotations

from contextlib import closing

import psycopg2

from tests.support.breaking import copy_first_slices, transfer_until
from tests.support.world import World


def has_work(world: World) -> tuple[bool, bool]:
    """Of the first hop, which reads the outbox, and of the second, which reads a log."""
    return (
        world.value("airline", "select relaybox_internal.hop_has_work('flights/1')"),
        world.value("hub", "select relaybox_internal.hop_has_work('flights/2')"),
    )


def test_a_hop_has_work_until_its_last_batch_is_confirmed(world: World) -> None:
    """From the first commit on; a message of no topic of its own, and what is another's, is no work."""
    world.query("hub", "select relaybox_internal.register_hop_in('another/1', 'elsewhere')")
    assert has_work(world) == (False, False)
    world.send("another's", topic="invoices")
    assert has_work(world) == (False, False)
    world.send("a")
    assert has_work(world) == (True, False)
    copy_first_slices(world.first_hop, 0)
    assert has_work(world) == (True, False), "planned is not moved"
    transfer_until(world.first_hop, lambda progress: progress.published)
    assert has_work(world) == (True, True), "published is not confirmed"
    world.transfer(world.second_hop)
    assert has_work(world) == (True, False)
    world.transfer(world.first_hop)
    assert has_work(world) == (False, False)


def test_only_the_routed_backlog_of_a_hop_is_work(world: World) -> None:
    """What nobody routes any more waits for an operator; a retired hop moves nothing."""
    piece = "insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs, state) values (%s, '{flights}', '1:1:', '9:9:', '{[1,5)}', %s)"
    another = "insert into relaybox_internal.hop_out select (jsonb_populate_record(h, jsonb_build_object('hop', 'another/1'))).* from relaybox_internal.hop_out h"
    world.query("airline", another)
    for hop, state, work in (("another/1", "routed", False), ("flights/1", "unrouted", False), ("flights/1", "routed", True)):
        world.query("airline", piece, hop, state)
        assert has_work(world) == (work, False)
    world.query("airline", "delete from relaybox_internal.backlog")
    world.send("a")
    world.transfer(world.first_hop)
    world.send("b")
    assert has_work(world) == (True, True)
    for store, hop in (("airline", "flights/1"), ("hub", "flights/2")):
        world.query(store, "select relaybox_internal.record_hops_of_file('{}', 'test')")
        world.query(store, "select relaybox_internal.retire_hop(%s, 'why', 'test')", hop)
    assert has_work(world) == (False, False)


def test_a_driver_of_the_hop_is_seen_in_its_own_database_only(world: World) -> None:
    """By the name of its session: another hop's, another tool's, and one that is connected elsewhere do not count."""
    own = world.value("airline", "select current_database()")
    for database, name, is_driver in (
        (own, "relaybox flights/10 driver", False),
        (own, "relaybox flights/1 status", False),
        ("postgres", "relaybox flights/1 driver", False),
        (own, "relaybox flights/1 driver", True),
    ):
        with closing(psycopg2.connect(service="airline", dbname=database, application_name=name)):
            assert world.value("airline", "select relaybox_internal.hop_is_driven('flights/1')") is is_driver, (database, name)


def test_what_commits_after_a_hop_has_looked_is_work_whenever_it_began(world: World) -> None:
    """The hop's frontier knows each transaction as finished, as open or as not yet begun: the ends of each range, one by one."""
    world.send("a")
    now = world.value("airline", "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    frontier = f"{now - 40}:{now - 10}:{now - 40},{now - 25}"
    for xid in (now - 50, now - 41, now - 40, now - 39, now - 26, now - 25, now - 24, now - 11, now - 10, now - 9, now - 1):
        for topic, anchor, is_work in (("flights", 0, True), ("flights", 1, False), ("invoices", 0, False)):
            world.query("airline", "update relaybox.outbox set xid = %s::text::xid8, topic = %s", xid, topic)
            world.query("airline", "update relaybox_internal.hop_out set lower = %s, anchor_seq = %s", frontier, anchor)
            seen = world.value("airline", "select pg_visible_in_snapshot(xid, %s) from relaybox.outbox", frontier)
            assert has_work(world) == (is_work and not seen, False), (xid - now, topic, anchor)


def test_what_the_asking_transaction_has_sent_itself_is_no_work(world: World) -> None:
    """No batch can hold it before it commits."""
    asked = "select relaybox_internal.hop_has_work('flights/1')"
    with world.session() as session, session.cursor() as cursor:
        cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'a')")
        cursor.execute(asked)
        assert cursor.fetchone() == (False,)
        session.commit()
        cursor.execute(asked)
        assert cursor.fetchone() == (True,)
