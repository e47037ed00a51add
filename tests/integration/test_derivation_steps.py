"""The steps of a derivation in the store: an attempt on record before it begins, and one transaction that sends and acknowledges."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from relaybox.errors import DerivationFailed, LaneLost, RelayboxError, SenderRefused, StoreUnusable
from relaybox.failpoints import DERIVE_FAILPOINTS
from relaybox.hops.confirmations import settle_hop
from relaybox.retention.segments import retain_store
from relaybox.spark.derivations.ledger import Attempt
from relaybox.spark.derivations.publishing import Published, send
from tests.integration.derivation_steps import derive_all, ledger, rows, sending
from tests.integration.logged_in import logged_in_as
from tests.support.backups import Backups
from tests.support.cli import invoke
from tests.support.derivations import HERE, ROUTE, STORE, SUBSCRIPTION, DerivedWorld, derived_route
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.streams import deliver
from tests.support.world import World, routes_file, wait_until


@pytest.fixture
def delays(world: World) -> DerivedWorld:
    derived = DerivedWorld(world)
    derived.configure(**{"with": f"{HERE}:copies"})
    world.register()
    return derived


def fail_then_derive(delays: DerivedWorld) -> None:
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(4, "test")
        assert attempt is not None
        opened.fail(attempt, "a reason", dead_letter=False)
    derive_all(delays)


@pytest.mark.parametrize("step", DERIVE_FAILPOINTS)
def test_g3_a_derivation_that_is_killed_at_any_step_derives_from_each_message_once(
    delays: DerivedWorld, tmp_path: Path, step: str
) -> None:
    """Each attempt that published did so as a whole; what was lost with the others is on record."""
    deliver(delays.world, 10)
    work = fail_then_derive if step.startswith("derive_failure") else derive_all
    kill_at(step, tmp_path, lambda: work(delays))
    derive_all(delays)
    assert delays.sent() == [f"late m{number}" for number in range(1, 11)]
    assert delays.done() == 10
    published = [positions for _, state, positions, *_ in delays.attempts() if state == "published"]
    assert published == ["{[1,5)}", "{[5,9)}", "{[9,11)}"]
    others = [state for _, state, *_ in delays.attempts() if state != "published"]
    is_before = step in ("derive_version.committing", "derive_version.committed", "derive_attempt.committing", "derive.committed")
    assert others == ([] if is_before else ["failed"] if step == "derive_failure.committed" else ["superseded"])


def test_g3_tasks_of_one_attempt_send_once(delays: DerivedWorld) -> None:
    """Speculation, or a stage that runs again with other rows: the second one waits for the first one's transaction."""
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(10, "test")
        assert attempt is not None
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda number: send(sending(attempt), rows(attempt, f"{number} ")), range(4)))
    assert sorted(one.now for one in done) == [False, False, False, True]
    assert {one.derived_count for one in done} == {3}
    (prefix,) = {payload.split()[0] for payload in delays.sent()}
    assert delays.sent() == [f"{prefix} m{number}" for number in (1, 2, 3)]


def test_g3_an_attempt_that_a_later_one_ended_sends_nothing(delays: DerivedWorld) -> None:
    """Also one whose messages the later one has derived from, and one that has failed."""
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        first = opened.begin_attempt(10, "test")
        second = opened.begin_attempt(10, "test")
        assert first is not None
        assert second is not None
        with pytest.raises(LaneLost, match=r"attempt 1 of derivation delays, version 1 was ended at .*: it is superseded"):
            send(sending(first), rows(first))
        assert send(sending(second), rows(second)) == Published(3)
        with pytest.raises(LaneLost, match="superseded"):
            send(sending(first), rows(first))
        deliver(delays.world, 1)
        failed = opened.begin_attempt(10, "test")
        assert failed is not None
        opened.fail(failed, "a reason", dead_letter=False)
        with pytest.raises(LaneLost, match="it is failed"):
            send(sending(failed), rows(failed))
    assert delays.sent() == ["late m1", "late m2", "late m3"]


def test_messages_that_somebody_else_has_fetched_are_an_error_and_no_end(delays: DerivedWorld) -> None:
    """A run that found nothing to do would end with 0 while they wait."""
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        delays.world.query(STORE, f"select from relaybox.fetch('{SUBSCRIPTION}', 2, worker => 'a person')")
        with pytest.raises(LaneLost, match="lane 1 is leased to worker a person until"):
            opened.begin_attempt(10, "test")
        opened.session.rollback()
        delays.world.query(STORE, f"select from relaybox.fetch('{SUBSCRIPTION}', 2, worker => 'a person')")
        delays.world.query(
            STORE, f"select relaybox.release('{SUBSCRIPTION}', (select token from relaybox_internal.lane_cursors))"
        )
    derive_all(delays)
    assert delays.sent() == ["late m1", "late m2", "late m3"]


def test_g3_an_attempt_of_an_ended_version_sends_nothing(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(10, "test")
        assert attempt is not None
        delays.configure(**{"with": f"{HERE}:copies", "version": 2})
        with ledger(delays):
            with pytest.raises(LaneLost, match="superseded"):
                send(sending(attempt), rows(attempt))
            with pytest.raises(RelayboxError, match="version 1 of the derivation of route delays, ended at"):
                opened.begin_attempt(10, "test")
    assert delays.sent() == []


def test_g11_a_task_of_an_attempt_that_the_restored_store_does_not_know_sends_nothing(
    delays: DerivedWorld, backups: Backups
) -> None:
    """Another attempt has the same number there, and other messages."""
    deliver(delays.world, 3)
    with ledger(delays):
        pass
    early = backups.take(STORE)
    with ledger(delays) as opened:
        lost = opened.begin_attempt(10, "test")
    assert lost is not None
    backups.restore(STORE, early)
    deliver(delays.world, 2)
    with ledger(delays) as opened:
        known = opened.begin_attempt(10, "test")
        assert known is not None
        assert known.attempt == lost.attempt
        with pytest.raises(LaneLost, match="the store does not know this attempt 1"):
            send(sending(lost), rows(lost, "lost "))
        opened.fail(lost, "a reason", dead_letter=False)
        assert send(sending(known), rows(known)).now
    assert delays.sent() == [f"late m{number}" for number in range(1, known.message_count + 1)]


def test_g3_a_new_version_takes_the_dead_letters_of_the_one_before_over(delays: DerivedWorld) -> None:
    """The repaired function has a higher version: what the one before could not derive is redriven to it."""
    deliver(delays.world, 6)
    with ledger(delays) as opened:
        for _ in (1, 2):
            attempt = opened.begin_attempt(1, "test")
            assert attempt is not None
            opened.fail(attempt, "a mistake", dead_letter=True)
    derive_all(delays)
    delays.world.query(
        STORE, "select relaybox.redrive('derive.delays.v1', 'repaired', min(dead_letter_id)) from relaybox.dead_letters"
    )
    delays.configure(**{"with": f"{HERE}:copies", "version": 2})
    derive_all(delays)
    assert delays.sent() == ["late m3", "late m4", "late m5", "late m6", "late m1"]
    assert delays.world.query(STORE, "select relaybox.redrive('derive.delays.v2', 'repaired')") == [(1,)]
    derive_all(delays)
    assert delays.sent()[5:] == ["late m2"]
    assert delays.done() == 6


def test_g3_a_new_version_that_derives_from_a_dead_letter_anyway_does_so_once(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(1, "test")
        assert attempt is not None
        opened.fail(attempt, "a mistake", dead_letter=True)
    delays.configure(**{"with": f"{HERE}:copies", "version": 2, "start": "1"})
    derive_all(delays)
    assert delays.sent() == ["late m1", "late m2", "late m3"]
    resolved = "select state, resolved_reason from relaybox_internal.dead_letter"
    assert delays.world.query(STORE, resolved) == [
        ("dropped", "version 2 of the derivation of route delays derives from it again")
    ]


@pytest.mark.parametrize("is_ended", [False, True])
def test_g3_a_new_version_in_a_replay_begins_after_all_that_was_derived(delays: DerivedWorld, is_ended: bool) -> None:
    deliver(delays.world, 6)
    derive_all(delays)
    delays.world.query(STORE, f"select relaybox.replay('{SUBSCRIPTION}', '2', 'again')")
    if is_ended:
        delays.world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'a mistake')")
    delays.configure(**{"with": f"{HERE}:copies", "version": 2})
    deliver(delays.world, 1)
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(10, "test")
    assert attempt is not None
    assert (attempt.firsts, attempt.lasts) == ([7], [7])


def test_an_attempt_that_begins_while_another_one_publishes_waits_for_it(
    delays: DerivedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lock the attempt, then the lane: neither ends the other by a deadlock."""
    deliver(delays.world, 6)
    publishing = Event()

    def is_waiting() -> bool:
        return bool(
            delays.world.value(
                STORE, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'begin_der'"
            )
        )

    def wait(failpoint: str, _: object) -> None:
        if failpoint == "derive.inserted":
            publishing.set()
            wait_until(is_waiting, "the second attempt waits for the first one's lock")

    monkeypatch.setattr("relaybox.spark.derivations.publishing.reach", wait)
    with ledger(delays) as opened, ThreadPoolExecutor(1) as pool:
        first = opened.begin_attempt(3, "test")
        assert first is not None
        sent = pool.submit(send, sending(first), rows(first))
        assert publishing.wait(patience(30))
        second = opened.begin_attempt(3, "test")
        assert sent.result().now
        assert second is not None
        assert (second.firsts, second.lasts) == ([4], [6])


def test_a_sender_that_somebody_has_declared_is_refused(delays: DerivedWorld) -> None:
    """Its messages carry indexes, and the next store would set aside those that have none."""
    deliver(delays.world, 3)
    delays.world.query(STORE, f"select relaybox.declare_sender('{ROUTE}', 'gapless')")
    with pytest.raises(SenderRefused, match="sender delays is declared gapless in this store"):
        derive_all(delays)
    assert (delays.sent(), delays.done()) == ([], 0)


def test_g1_messages_that_the_outbox_refuses_are_sent_neither_in_part_nor_acknowledged(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(10, "test")
        assert attempt is not None
        bad = pa.RecordBatch.from_pydict({"payload": ["a secret", "b"], "key": ["k", "x" * 201]})
        with pytest.raises(
            DerivationFailed, match=r"derived from stream positions 1 to 3: .*key_at_most_200_characters"
        ) as refused:
            send(sending(attempt), [bad])
        assert "secret" not in str(refused.value), "viewers read why an attempt failed"
        for row in ({"payload": [None]}, {"payload": ["a\0b"]}, {"payload": ["a"], "headers": ["no JSON"]}):
            with pytest.raises(DerivationFailed, match="the outbox refuses a message"):
                send(sending(attempt), [pa.RecordBatch.from_pydict(row)])
    assert (delays.sent(), delays.done()) == ([], 0)
    derive_all(delays)
    assert delays.sent() == ["late m1", "late m2", "late m3"]


def test_g1_a_trigger_of_others_that_drops_messages_is_an_error(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    delays.world.query(
        STORE,
        "create function public.drop_some() returns trigger language plpgsql as "
        "$$ begin if new.payload = 'late m2' then return null; end if; return new; end $$",
    )
    delays.world.query(
        STORE, "create trigger drop_some before insert on relaybox.outbox for each row execute function public.drop_some()"
    )
    with pytest.raises(DerivationFailed, match="2 of 3 derived messages of route delays were inserted"):
        derive_all(delays)
    assert (delays.sent(), delays.done()) == ([], 0)


def test_where_walks_from_a_message_to_what_was_derived_from_it_and_back(delays: DerivedWorld) -> None:
    """Over both routes, by the ids alone, and with a login that sees no header."""
    world = delays.world
    world.send("a", "b", "c")
    world.transfer(world.first_hop)
    with ledger(delays) as opened:
        attempt = opened.begin_attempt(10, "test")
        assert attempt is not None
        twice = pa.RecordBatch.from_pydict({"stream_position": [1, 2, 2], "payload": ["late a", "late b", "later b"]})
        send(sending(attempt), [twice])
    for hop in delays.route.hops:
        world.transfer(hop)
    causes = [str(one) for (one,) in world.query("airline", "select message_id from relaybox.outbox order by seq")]
    made = [str(one) for (one,) in world.query(STORE, "select message_id from relaybox.outbox order by seq")]
    with logged_in_as(world, "relaybox_viewer"):
        traces = [invoke("where", one, "--json").document["traces"][0] for one in causes]
        derived = [invoke("where", one, "--json").document["traces"][0] for one in made]
        shown = invoke("where", causes[1]).stdout
    found = [trace["hops"][0]["delivered"]["derived"] for trace in traces]
    assert [one["message_ids"] for (one,) in found] == [made[:1], made[1:], []]
    assert {(one["route"], one["version"], one["attempt"], one["derived_count"]) for (one,) in found} == {(ROUTE, 1, 1, 3)}
    assert [(one["derived_from"]["first_stream_position"], one["derived_from"]["message_id"]) for one in derived] == [
        (1, causes[0]),
        (2, causes[1]),
        (2, causes[1]),
    ]
    assert [hop["stage"] for hop in derived[0]["hops"]] == ["received"]
    assert f"derived from by route delays, version 1, attempt 1, which sent 3 messages: {made[1]}, {made[2]}" in " ".join(
        shown.split()
    )
    assert all(trace["derived_from"] is None for trace in traces)


def test_a_login_needs_the_roles_of_driver_producer_and_consumer(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    with logged_in_as(delays.world, "relaybox_driver"), pytest.raises(StoreUnusable, match="permission denied"):
        derive_all(delays)
    with logged_in_as(delays.world, "relaybox_driver", "relaybox_producer", "relaybox_consumer"):
        derive_all(delays)
    assert delays.sent() == ["late m1", "late m2", "late m3"]


def test_g3_a_store_that_was_restored_derives_again_what_it_lost_with_the_same_ids(
    delays: DerivedWorld, backups: Backups
) -> None:
    """Ledger, acknowledgement and outbox are in one database, so they go back together."""
    deliver(delays.world, 6)
    early = backups.take(STORE)
    derive_all(delays)
    ids = "select message_id, payload from relaybox.outbox order by seq"
    before = delays.world.query(STORE, ids)
    backups.restore(STORE, early)
    assert delays.sent() == []
    derive_all(delays, max_count=5)
    assert delays.world.query(STORE, ids) == before


def retain(delays: DerivedWorld) -> int:
    """How many records of attempts retention removed."""
    return retain_store(delays.world.routes.store(STORE), recorded_by="test").compacted_attempt_count


def settle_derived(delays: DerivedWorld, others: int = 0) -> None:
    """So many messages of an application follow in the same outbox."""
    insert = "insert into relaybox.outbox (topic, sender, payload) select %s, 'other', 'o' || n from generate_series(1, %s) n"
    delays.world.query(STORE, insert, ROUTE, others)
    for hop in delays.route.hops:
        delays.world.transfer(hop)
    for hop in reversed(delays.route.hops):
        settle_hop(delays.route, hop, recorded_by="test")


@pytest.fixture
def forgetful(delays: DerivedWorld) -> DerivedWorld:
    """Segments of ten rows, and routes that keep nothing longer than it is needed; 45 messages, derived four by four."""
    keeps_nothing = {"retention": {"replay_window_seconds": 0}}
    derived = {**derived_route(**{"with": f"{HERE}:copies"}), **keeps_nothing}
    routes_file(delays.world.path.parent, route=keeps_nothing, more_routes={ROUTE: derived})
    delays.world.cut_small_segments()
    delays.world.register()
    delays.world.send_many(45)
    delays.world.transfer_all()
    delays.world.settle_all()
    derive_all(delays)
    return delays


def test_retention_removes_the_records_of_attempts_of_which_no_message_is_kept(forgetful: DerivedWorld) -> None:
    """Neither one that they read nor one that they sent. Of what is kept, where goes on to tell the cause."""
    assert (len(forgetful.attempts()), retain(forgetful)) == (12, 0)
    settle_derived(forgetful)
    assert (retain(forgetful), retain(forgetful)) == (9, 0)
    kept = [(number, positions) for number, _, positions, *_ in forgetful.attempts()]
    assert kept == [(10, "{[37,41)}"), (11, "{[41,45)}"), (12, "{[45,46)}")]  # what it sent for 40 is kept
    seq = forgetful.world.value(STORE, "select min(seq) from relaybox.outbox")
    cause = "select first_stream_position, attempt from relaybox_internal.trace_cause(%s)"
    assert forgetful.world.query(STORE, cause, seq) == [(40, 10)]
    settle_derived(forgetful, others=30)
    assert retain(forgetful) == 0
    assert forgetful.world.value(STORE, "select first_kept_seq from relaybox_internal.store") > 45
    assert forgetful.world.value(STORE, "select dropped_stream_position from relaybox_internal.stream") == 39


def test_g3_a_task_of_an_attempt_whose_record_was_removed_sends_nothing(forgetful: DerivedWorld) -> None:
    """It was published, failed or superseded long ago; a later one has no number twice."""
    settle_derived(forgetful)
    assert retain(forgetful) == 9
    sent = forgetful.sent()
    with ledger(forgetful) as opened:
        old = Attempt(opened.derivation_id, 3, "a token", 4, [9], [12])
        with pytest.raises(LaneLost, match="attempt 3 of derivation delays, version 1 has ended, and retention has removed its"):
            send(sending(old), rows(old))
        opened.fail(old, "a reason", dead_letter=False)
        forgetful.world.send_many(1, prefix="n")
        forgetful.world.transfer(forgetful.world.first_hop)
        newest = opened.begin_attempt(4, "test")
        assert newest is not None
        assert (newest.attempt, newest.firsts) == (13, [46])
    assert forgetful.sent() == sent


def test_g3_retention_keeps_the_attempt_that_reached_furthest(forgetful: DerivedWorld) -> None:
    """A replay that somebody ended was not as far: the next version must not derive again what lies between."""
    world = forgetful.world
    world.query(STORE, f"select relaybox.replay('{SUBSCRIPTION}', '31', 'again')")
    with ledger(forgetful) as opened:
        again = opened.begin_attempt(4, "test")
        assert again is not None
        send(sending(again), rows(again))
    world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'a mistake')")
    settle_derived(forgetful, others=30)
    world.send_many(30, prefix="n")
    world.transfer_all()
    world.settle_all()
    retain(forgetful)
    reached = "select max(upper(stream_positions)) - 1 from relaybox_internal.derivation_attempt where state = 'published'"
    assert world.value(STORE, "select dropped_stream_position from relaybox_internal.stream") >= 45
    assert world.value(STORE, "select first_kept_seq from relaybox_internal.store") > 49
    assert world.value(STORE, reached) == 45


def test_retention_keeps_what_an_open_trial_is_compared_with(forgetful: DerivedWorld) -> None:
    world = forgetful.world
    settle_derived(forgetful)
    begin = "select t.trial_id from relaybox_internal.begin_derivation_trial('delays', 2, 'flights', 'f', 'd', '5', '12', 'test', false) t"
    trial_id = world.value(STORE, begin)
    assert retain(forgetful) == 1
    assert [number for number, *_ in forgetful.attempts()][:2] == [2, 3]
    world.query(STORE, "select relaybox_internal.end_derivation_trial(%s, 'dropped', 'test', 'a reason')", trial_id)
    assert retain(forgetful) == 8
