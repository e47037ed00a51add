"""Guards of the protocol that a run without faults never needs: each one alone, in the moment that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.hops.confirmations import confirm_received
from relaybox.hops.copying import SliceJob, copy_slice, session_name, slice_job
from relaybox.hops.planning import AttemptOwner, Planned, plan_batch
from relaybox.hops.publishing import ask_destination, make_log_segments, publish_batch
from relaybox.monitoring.status import read_status
from relaybox.stores.init.one_store import StoreInitialised, initialise_store
from relaybox.stores.sessions.connections import commit_durably, connect
from tests.support.breaking import copy_first_slices
from tests.support.patience import patience
from tests.support.world import World, insert, wait_until


@pytest.fixture
def planned(world: World) -> Planned:
    """A batch of two messages, planned and not copied."""
    world.send("a", "b")
    hop = world.first_hop
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        arrived = ask_destination(destination, hop)
        found = plan_batch(source, hop, arrived, driver=AttemptOwner("test"))
        assert found is not None
        make_log_segments(destination, hop, log_id=arrived.log_id, through_position=2)
    return found


@pytest.fixture
def order(world: World, planned: Planned) -> SliceJob:
    log_id = world.value("hub", "select log_id from relaybox_internal.hop_in where hop = 'flights/1'")
    stores, attempt = world.store_ids(), planned.attempt
    return slice_job(world.first_hop, planned.batch, stores=stores, attempt=attempt, log_id=log_id, reads_log=None)


def test_g5_messages_are_ordered_by_insertion_whatever_their_xid_and_clock_say(world: World) -> None:
    """An old transaction that inserts late, at a clock that went back, comes last; also in a slice that is not dense."""
    with world.session() as old, world.session() as undone, old.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()")
        world.send("first")
        insert(undone, "a hole in seq")
        undone.rollback()
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload, sent_at) values ('flights', 'UA', 'second', now() - interval '1 hour')"
        )
        old.commit()
    world.transfer()
    assert world.payloads() == ["first", "second"]


def test_g2_the_next_pair_begins_where_this_one_ended(world: World, planned: Planned) -> None:
    """From the plan's COMMIT on, in the same transaction: nothing lies between two pairs, and nothing in both."""
    assert world.value("airline", "select lower::text from relaybox_internal.hop_out") == planned.batch.upper


def test_g1_a_savepoint_that_outlives_a_batch_is_sent_with_its_transaction(world: World) -> None:
    """Rows carry their transaction's number, not the savepoint's: a snapshot knows only the first."""
    with world.session() as held, held.cursor() as cursor:
        cursor.execute("savepoint s")
        insert(held, "in a savepoint")
        cursor.execute("release savepoint s")
        world.send("meanwhile")
        world.transfer()
        held.commit()
    world.transfer()
    assert world.payloads() == ["meanwhile", "in a savepoint"]


def test_g2_a_planned_batch_is_read_with_its_own_topics(world: World) -> None:
    """The route gained a topic between plan and copy; the slice has a message of it in its range, and leaves it to the next batch."""
    world.send("a")
    world.send("not planned", topic="weather")
    world.send("b")
    copy_first_slices(world.first_hop, 0)
    world.change_route(topics=["flights", "weather"])
    world.transfer()
    assert world.payloads() == ["a", "b", "not planned"]


LOCK_WAITS = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


def test_g2_the_snapshot_of_a_plan_is_younger_than_its_lock(world: World) -> None:
    """What was committed while a planner waited for another one is in its batch: its time never runs behind the lock."""
    world.send("before")
    with world.session() as other, ThreadPoolExecutor(1) as pool:
        with other.cursor() as cursor:
            cursor.execute("select from relaybox_internal.lock_hop('flights/1')")
        run = pool.submit(world.transfer)
        wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "the planner waits for the lock")
        world.send("meanwhile")
        other.rollback()
        assert run.result(patience(60)).batch_count == 1
    assert world.payloads() == ["before", "meanwhile"]


def test_g2_a_transaction_that_ends_while_rows_are_counted_is_in_the_next_pair(world: World) -> None:
    """Rows are counted by the pair's own snapshots, not by what is visible when the counting begins."""
    with world.session() as late:
        insert(late, "late")
        world.send("done before it")
        upper = world.value("airline", "select pg_current_snapshot()::text")
        late.commit()
    after = world.value("airline", "select pg_current_snapshot()::text")
    count = "select coalesce(sum(row_count), 0) from relaybox_internal.outbox_buckets(%s, %s, '{flights}', 8, 0)"
    assert world.value("airline", count, "1:1:", upper) == 1
    assert world.value("airline", count, upper, after) == 1


def test_g3_a_slice_that_comes_while_its_batch_is_being_published_is_refused(
    world: World, planned: Planned, order: SliceJob
) -> None:
    """The guard waits for the publish in flight and then sees what it did; a plain SELECT would have seen the time before."""
    slice_ = planned.batch.slices[0]
    copy_slice(order, slice_)
    accept = "select relaybox_internal.accept_slice(%s, 1, 1, 99, %s, 2::bigint, 1::bigint)"
    with world.session("hub") as publisher, ThreadPoolExecutor(1) as pool:
        with publisher.cursor() as cursor:
            cursor.execute(
                "update relaybox_internal.hop_in set published_batch = 1, published_position = 2 where hop = 'flights/1'"
            )
        zombie = pool.submit(world.query, "hub", accept, order.log_id, str(order.plan_id))
        wait_until(lambda: world.value("hub", LOCK_WAITS) == 1, "the slice waits for publish")
        publisher.commit()
        with pytest.raises(psycopg2.Error) as refused:
            zombie.result(patience(30))
    assert refused.value.pgcode == "RB015"


def test_g2_the_ledger_takes_no_plan_that_does_not_follow_the_last(world: World) -> None:
    """A driver that remembers an older end of the ledger is refused by the ledger itself."""
    world.send("a")
    world.transfer()
    with pytest.raises(psycopg2.Error, match="does not follow batch 1") as refused:
        world.query(
            "airline",
            """
            select relaybox_internal.record_batch(
                hop, null::bigint, '1:1:'::pg_snapshot, upper, pair_last_seq, true, 0::bigint, reads_through, row_count, slices, null::text[],
                system_identifier, timeline, next_xid
            ) from relaybox_internal.batch
            """,
        )
    assert refused.value.pgcode == "RB005"


def test_g3_rows_that_no_receipt_explains_are_never_taken_for_a_copy(world: World, planned: Planned, order: SliceJob) -> None:
    """A stranger's row at the slice's positions is an error that stops, not a slice that is done."""
    world.query(
        "hub",
        f"insert into relaybox_internal.log_{order.log_id} (log_position, index, epoch, message_id, sent_at, topic, sender, payload) "
        "values (1, 1, 1, gen_random_uuid(), now(), 'flights', 'UA', 'stranger')",
    )
    with pytest.raises(errors.StoreFailed, match="23505"):
        copy_slice(order, planned.batch.slices[0])
    assert world.value("hub", "select count(*) from relaybox_internal.receipt") == 0


def test_g3_an_older_attempt_never_ends_a_newer_one(world: World, planned: Planned, order: SliceJob) -> None:
    """A zombie driver leaves the session of the newer attempt alone, and a new generation that of another database."""
    slice_ = planned.batch.slices[0]
    newer = connect("hub", application_name=session_name(replace(order, attempt=order.attempt + 1), slice_))
    elsewhere = psycopg2.connect(service="hub", dbname="postgres", application_name=session_name(order, slice_))
    with closing(newer), newer.cursor() as cursor:
        copy_slice(order, slice_)
        cursor.execute("select 1")
        newer.rollback()
        world.query("hub", "select relaybox_internal.begin_generation(%s, 2)", order.log_id)
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("select 1")
    with closing(elsewhere), elsewhere.cursor() as cursor:
        cursor.execute("select 1")


def test_g3_receipts_of_another_plan_do_not_count(world: World, planned: Planned, order: SliceJob) -> None:
    """The same batch number under another plan: its slices are not copied, and what is there is not its own."""
    slice_ = planned.batch.slices[0]
    copy_slice(order, slice_)
    other = uuid4()
    with pytest.raises(errors.ContentDiffers):
        copy_slice(replace(order, plan_id=other), slice_)
    with world.store_session("hub") as destination, pytest.raises(errors.ContentDiffers):
        publish_batch(destination, world.first_hop, replace(planned.batch, plan_id=other), log_id=order.log_id)
    assert world.payloads() == []


def test_g3_a_batch_is_not_published_over_slices_of_another_plan(world: World, planned: Planned, order: SliceJob) -> None:
    """The zombie of a plan that the source lost and the driver of the new one copy at the same time: neither sees the other's slice."""
    with world.session("hub") as zombie, zombie.cursor() as cursor:
        cursor.execute("select relaybox_internal.accept_slice(%s, 1, 1, 2, gen_random_uuid(), 0, 1)", (order.log_id,))
        copy_slice(order, planned.batch.slices[0])
        zombie.commit()
        with pytest.raises(psycopg2.Error, match="batch 1 is here with plan"):
            cursor.execute("select relaybox_internal.accept_slice(%s, 1, 1, 3, %s, 0, 1)", (order.log_id, str(order.plan_id)))
    with world.store_session("hub") as destination, pytest.raises(errors.ContentDiffers):
        publish_batch(destination, world.first_hop, planned.batch, log_id=order.log_id)
    assert world.payloads() == []


def test_g3_another_plan_under_a_published_number_is_refused(world: World, planned: Planned, order: SliceJob) -> None:
    """A source that lost history and planned the batch again is stopped by the destination (G11)."""
    copy_slice(order, planned.batch.slices[0])
    with world.store_session("hub") as destination:
        publish_batch(destination, world.first_hop, planned.batch, log_id=order.log_id)
        with pytest.raises(errors.ContentDiffers):
            publish_batch(destination, world.first_hop, replace(planned.batch, plan_id=uuid4()), log_id=order.log_id)


def test_g7_an_arrival_is_confirmed_as_often_as_anybody_likes(world: World, planned: Planned, order: SliceJob) -> None:
    """The second confirmation of a batch changes nothing and is no error."""
    copy_slice(order, planned.batch.slices[0])
    with world.store_session("hub") as destination, world.store_session("airline") as source:
        arrival = publish_batch(destination, world.first_hop, planned.batch, log_id=order.log_id)
        for _ in range(2):
            confirm_received(source, world.first_hop, arrival, destination_id=world.store_ids().destination, recorded_by="test")
    assert world.value("airline", "select count(*) from relaybox_internal.confirmation") == 1


def test_g7_a_planned_batch_that_nobody_received_is_never_settled(world: World, planned: Planned) -> None:
    """Whatever position is offered, and also where nothing at all was received yet."""
    settle = "select relaybox_internal.confirm_settled('flights/1', 1000, now(), 'forger')"
    assert world.value("airline", settle) == 0
    world.transfer()
    assert world.value("airline", settle) == 2
    world.send("c")
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        plan_batch(source, world.first_hop, ask_destination(destination, world.first_hop), driver=AttemptOwner("test"))
    assert world.value("airline", settle) == 2


def test_g7_a_commit_that_warns_is_no_commit(world: World) -> None:
    """Whatever the server warns of while it commits, nothing may rest on that transaction."""
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(
            """
            create table warned (id integer);
            create function warn() returns trigger language plpgsql as 'begin raise warning ''not sure''; return null; end';
            create constraint trigger warns after insert on warned deferrable initially deferred for each row execute function warn();
            """
        )
        commit_durably(connection, "plan")
        cursor.execute("insert into warned values (1)")
        with pytest.raises(errors.NotDurable, match="not sure"):
            commit_durably(connection, "plan")


def test_g7_a_commit_that_says_anything_is_no_commit_whatever_its_words(world: World) -> None:
    """A server of another language says WARNUNG: the message refuses, not its words. More than a driver keeps are told, too."""
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(
            """
            create table told (id integer);
            create function tell() returns trigger language plpgsql as 'begin raise info ''bestätigt?''; return null; end';
            create constraint trigger tells after insert on told deferrable initially deferred for each row execute function tell();
            """
        )
        commit_durably(connection, "plan")
        cursor.execute("insert into told select generate_series(1, 60)")
        with pytest.raises(errors.NotDurable, match="bestätigt"):
            commit_durably(connection, "plan")


def test_g7_what_is_heard_before_the_commit_refuses_nothing(world: World) -> None:
    """Only what comes with COMMIT speaks of it."""
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("do $$ begin raise warning 'long ago'; end $$")
        commit_durably(connection, "plan")


def test_g7_a_transaction_that_failed_is_never_taken_for_committed(world: World) -> None:
    """COMMIT of an aborted transaction answers ROLLBACK, with no message at all."""
    with world.session() as connection, connection.cursor() as cursor:
        with pytest.raises(psycopg2.errors.DivisionByZero):
            cursor.execute("select 1 / 0")
        with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
            commit_durably(connection, "plan")


DURABLE = {
    "airline": (
        "select relaybox_internal.lock_hop('flights/1')",
        "select relaybox_internal.confirm_received('flights/1', 1, plan_id, now(), 'test') from relaybox_internal.batch",
        "select relaybox_internal.confirm_settled('flights/1', 1, now(), 'test')",
    ),
    "hub": (
        "select relaybox_internal.publish_batch({publish})",
        "select relaybox_internal.durable_arrival(1)",
    ),
}


@pytest.mark.parametrize(("store", "statement"), [(store, text) for store, texts in DURABLE.items() for text in texts])
def test_g7_what_must_be_durable_waits_for_the_disk_whatever_the_role_says(world: World, store: str, statement: str) -> None:
    """A role or a database may have synchronous_commit off; a plan, an arrival and a confirmation do not."""
    world.send("a")
    world.transfer()
    columns = "generation, batch, plan_id, first_position, last_position, jsonb_array_length(slices), system_identifier, timeline"
    (arguments,) = world.query("airline", f"select {columns} from relaybox_internal.batch")
    with world.session(store) as connection, connection.cursor() as cursor:
        cursor.execute("set synchronous_commit = off")
        connection.commit()
        if "{publish}" in statement:
            cursor.execute("select relaybox_internal.publish_batch(1, %s, %s, %s, %s, %s, %s, %s, %s)", arguments)
        else:
            cursor.execute(statement)
        cursor.execute("show synchronous_commit")
        assert cursor.fetchone() == ("on",)


@pytest.fixture(params=["airline", "hub"])
def careless(world: World, request: pytest.FixtureRequest) -> Iterator[str]:
    """A store whose server runs without full_page_writes."""
    _set_full_page_writes(world, request.param, "off")
    try:
        yield request.param
    finally:
        _set_full_page_writes(world, request.param, "on")


def _set_full_page_writes(world: World, store: str, value: str) -> None:
    world.query(store, f"alter system set full_page_writes = {value}")
    world.query(store, "select pg_reload_conf()")
    wait_until(lambda: world.value(store, "select current_setting('full_page_writes')") == value, "the setting is in force")


def test_g7_a_server_that_may_forget_what_it_committed_is_refused(world: World, careless: str) -> None:
    """fsync and full_page_writes are on, or nothing is moved: neither from such a server nor to it."""
    world.send("a")
    with pytest.raises(errors.StoreUnusable, match=f"store {careless}.*full_page_writes is off"):
        world.transfer()
    assert world.payloads() == []


def initialise(world: World) -> list[StoreInitialised]:
    return [initialise_store(store, world.routes) for store in world.routes.stores.values()]


def set_durability(world: World, store: str, durability: str, reason: str | None) -> None:
    document = yaml.safe_load(world.path.read_text())
    document["stores"][store] = {"durability": durability, **({"durability_reason": reason} if reason else {})}
    world.path.write_text(yaml.safe_dump(document))


def test_g7_a_provider_answers_for_a_server_without_fsync_only_on_record(world: World, careless: str) -> None:
    """The file alone is not enough: init records it, with who said it; the way back refuses at once, and loses nothing."""
    world.send("a")
    set_durability(world, careless, "provider", "three safekeepers have each commit")
    with pytest.raises(errors.StoreUnusable, match="full_page_writes is off") as refused:
        world.transfer()
    assert "durability" in refused.value.next_step
    (done,) = [store for store in initialise(world) if store.store == careless]
    assert (done.durability, done.durability_changed, done.changed) == ("provider", True, True)
    world.transfer()
    assert world.payloads() == ["a"]
    recorded = read_status(world.routes).provider_durability
    assert {store: found.reason for store, found in recorded.items()} == {careless: "three safekeepers have each commit"}
    assert recorded[careless].said_by == world.value(careless, "select session_user::text")
    assert not any(store.durability_changed for store in initialise(world))
    world.send("b")
    set_durability(world, careless, "server", None)
    with pytest.raises(
        errors.StoreUnusable, match=f"store {careless}: fsync is .* full_page_writes is off.*durability: provider"
    ):
        initialise(world)
    world.transfer()  # init changed nothing: the record still holds
    assert world.payloads() == ["a", "b"]


def test_g7_durability_of_the_server_is_demanded_again_after_init(world: World) -> None:
    """A store that moved to a server with fsync: its provider's word ends with the file's."""
    set_durability(world, "hub", "provider", "a provider")
    world.initialise()
    assert list(read_status(world.routes).provider_durability) == ["hub"]
    set_durability(world, "hub", "server", None)
    world.initialise()
    assert read_status(world.routes).provider_durability == {}
    world.send("a")
    _set_full_page_writes(world, "hub", "off")
    try:
        with pytest.raises(errors.StoreUnusable, match="full_page_writes is off"):
            world.transfer()
    finally:
        _set_full_page_writes(world, "hub", "on")
    world.transfer()
    assert world.payloads() == ["a"]


ANCHOR = "select anchor_seq, system_identifier from relaybox_internal.store"
MOVED_HERE = "update relaybox_internal.store set system_identifier = 1"
NUMBERINGS = "select numbering from relaybox_internal.numbering"


def test_an_outbox_of_another_cluster_is_anchored_once(world: World) -> None:
    """Where no hop reads it by that cluster's numbers: hops that were retired, that read a log, or that know this cluster, do not count."""
    world.send("a", "b", "c")
    here = world.value("airline", "select system_identifier from relaybox_internal.store")
    for store, hops in (
        ("airline", "select true"),
        (
            "airline",
            "update relaybox_internal.hop_out set system_identifier = 1, retired_at = now(), retired_by = 'x', retired_reason = 'x'",
        ),
        ("hub", "update relaybox_internal.hop_out set system_identifier = 1"),
    ):
        cluster = world.value(store, "select system_identifier from relaybox_internal.cluster_fingerprint()")
        world.query(store, MOVED_HERE)
        world.query(store, hops)
        seq = world.value(store, "select last_value from relaybox.outbox_seq")
        assert world.value(store, "select relaybox_internal.outbox_anchor()") == seq, hops
        assert world.query(store, ANCHOR) == [(seq, cluster)], hops
    assert world.value("airline", "select relaybox_internal.outbox_anchor()") == 3
    assert here == world.value("airline", "select system_identifier from relaybox_internal.store")


def test_an_outbox_is_not_anchored_while_a_hop_reads_it_by_the_numbers_of_another_cluster(world: World) -> None:
    """RB011, whichever of several hops it is."""
    world.query("airline", MOVED_HERE)
    world.query("airline", "update relaybox_internal.hop_out set system_identifier = 1")
    with pytest.raises(psycopg2.Error, match="was written by cluster 1 ") as refused:
        world.query("airline", "select relaybox_internal.outbox_anchor()")
    assert refused.value.pgcode == "RB011"


def test_an_anchor_goes_on_only_and_a_numbering_begins_after_a_reload_only(world: World) -> None:
    """A lower one would read rows of the old cluster by the numbers of the new one."""
    before = world.value("airline", NUMBERINGS)
    for seq, anchored in ((7, 7), (3, 7), (9, 9)):
        world.query("airline", "select relaybox_internal.record_anchor(%s)", seq)
        assert world.value("airline", "select anchor_seq from relaybox_internal.store") == anchored
    assert world.value("airline", NUMBERINGS) == before
    world.query("airline", "update relaybox_internal.numbering set xid = '1'")
    world.query("airline", "select relaybox_internal.record_anchor(9)")
    assert world.value("airline", NUMBERINGS) == before + 1
    assert not world.value("airline", "select relaybox_internal.is_reloaded()")


def test_an_outbox_is_not_anchored_beside_a_transaction_that_writes_to_it(world: World) -> None:
    """It is not waited for longer than producers would wait behind that."""
    world.query("airline", MOVED_HERE)
    world.query("airline", "delete from relaybox_internal.hop_out")
    with world.session() as producer:
        insert(producer, "open")
        with pytest.raises(psycopg2.errors.LockNotAvailable):
            world.query("airline", "set statement_timeout = '30s'; select relaybox_internal.outbox_anchor()")


@pytest.mark.parametrize(("table", "event"), [("hop_in", "update"), ("arrival", "insert")])
def test_g7_a_batch_whose_record_a_trigger_swallows_is_not_confirmed(world: World, table: str, event: str) -> None:
    """Nothing is confirmed of a batch that no reader sees; without the trigger the hop goes on."""
    world.send("first")
    world.transfer()
    world.send("a", "b")
    world.query(
        "hub",
        f"""
        create function public.swallow() returns trigger language plpgsql as 'begin return null; end';
        create trigger swallows before {event} on relaybox_internal.{table} for each row execute function public.swallow();
        """,
    )
    with pytest.raises(errors.StoreUnusable, match=r"(?s)flights/1: batch 2 could not be published.*relaybox doctor hub"):
        world.transfer()
    assert world.value("airline", "select max(through_batch) from relaybox_internal.confirmation") == 1
    world.query("hub", f"drop trigger swallows on relaybox_internal.{table}; drop function public.swallow()")
    world.transfer()
    assert world.payloads() == ["first", "a", "b"]


def test_g7_an_arrival_that_readers_do_not_see_is_published(world: World) -> None:
    """A trigger had swallowed the update beside it, in a version that did not look."""
    world.send("a", "b")
    world.transfer()
    world.query("hub", "update relaybox_internal.hop_in set published_batch = 0, published_position = 0")
    (arguments,) = world.query(
        "airline",
        "select generation, batch, plan_id, first_position, last_position, jsonb_array_length(slices), system_identifier, timeline "
        "from relaybox_internal.batch",
    )
    world.query("hub", "select relaybox_internal.publish_batch(1, %s, %s, %s, %s, %s, %s, %s, %s)", *arguments)
    assert world.query("hub", "select published_batch, published_position from relaybox_internal.hop_in") == [(1, 2)]
