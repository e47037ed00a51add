"""G7 with policy processed (A0.33): a hop settles only what named subscriptions at the last store have acknowledged."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relaybox import errors
from relaybox.failpoints import PROCESSING_FAILPOINTS
from relaybox.hops.confirmations import settle_hop
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.world import World, routes_file

CONFIRM = """
from relaybox.hops.confirmations import settle_hop
from relaybox.routes import load_routes
route = load_routes().route("flights")
settle_hop(route, route.hops[1], recorded_by="killed")
"""


@pytest.fixture
def processed(world: World) -> World:
    """The route settles when billing and audit, which are subscribed at its last store, have processed."""
    world.change_route(policy="processed", processed_by=["billing", "audit"])
    for name in ("billing", "audit"):
        world.query("analytics", "select relaybox.subscribe(%s, 'flights')", name)
    return world


def consume(world: World, subscription: str, count: int = 1000) -> int:
    """Fetches and acknowledges at most `count` messages; returns how many."""
    stream_positions = world.query(
        "analytics", "select stream_position, token from relaybox.fetch(%s, %s, worker => 'w')", subscription, count
    )
    if stream_positions:
        stream_position, token = stream_positions[-1]
        world.query("analytics", "select relaybox.ack(%s, %s, %s)", subscription, stream_position, token)
    return len(stream_positions)


def settled(world: World) -> dict[str, int]:
    return {s.hop: s.through_position for s in world.settle_all()}


def read(world: World, *names: str) -> Any:
    return world.value(
        "analytics", "select through_position from relaybox_internal.processed_reading('flights/2', %s)", list(names)
    )


def edit_file(world: World, **route: object) -> None:
    """relaybox.yaml is another one from now on; no init has run with it."""
    routes_file(world.path.parent, route=route)


def test_g7_a_file_that_no_init_has_read_settles_nothing(processed: World) -> None:
    """An older checkout, or one that was edited: what the newest init wrote holds. Retention would drop what audit has not read."""
    processed.send_many(5)
    processed.transfer_all()
    assert consume(processed, "billing") == 5
    for route in (
        {"policy": "processed", "processed_by": ["billing"]},
        {"policy": "received"},
        {"policy": "received", "path": ["airline", "hub"]},
        {"policy": "cascade", "path": ["airline", "hub"]},
    ):
        edit_file(processed, **route)
        assert set(settled(processed).values()) == {0}, route
    assert consume(processed, "audit") == 5
    edit_file(processed, policy="received")
    settled(processed)
    assert settled(processed) == {"flights/1": 5, "flights/2": 5}


def test_g7_a_hop_after_it_that_no_init_has_made_is_waited_for(world: World) -> None:
    """The route gets a hop more, and init reached its first store alone so far: what the file promises is not true yet."""
    world.change_route(policy="cascade", path=["airline", "hub"])
    world.send_many(5)
    world.transfer()
    edit_file(world, policy="cascade")
    assert settled(world) == {"flights/1": 0, "flights/2": 0}


def test_g7_processed_settles_when_every_named_subscription_has_acknowledged(processed: World) -> None:
    """A consumer that is behind holds the whole cascade; the origin sees when it was processed."""
    processed.send("a", "b")
    processed.transfer_all()
    assert settled(processed) == {"flights/1": 0, "flights/2": 0}
    assert consume(processed, "billing") == 2
    assert consume(processed, "audit", 1) == 1
    assert settled(processed) == {"flights/1": 0, "flights/2": 0}, "audit has one message of the batch to go"
    assert consume(processed, "audit") == 1
    assert settled(processed) == {"flights/1": 2, "flights/2": 2}
    assert processed.query(
        "airline", "select hop, state, through_position from relaybox_internal.confirmation order by 1, 2"
    ) == [
        ("flights/1", "received", 2),
        ("flights/1", "settled", 2),
        ("flights/2", "processed", 2),
        ("flights/2", "received", 2),
        ("flights/2", "settled", 2),
    ]
    assert [hop["processed_through"] for hop in invoke("status", "--json").document["hops"]] == [None, 2]
    message = processed.value("airline", "select message_id::text from relaybox.outbox limit 1")
    assert "flights/2: processed, recorded by test" in invoke("where", message).stdout


def test_g7_nothing_settles_beyond_what_is_recorded_as_processed(processed: World) -> None:
    """The database refuses it to every caller: settled implies processed."""
    processed.send("a")
    processed.transfer_all()
    assert processed.value("hub", "select relaybox_internal.confirm_settled('flights/2', 1, now(), 'forger')") == 0


def test_g7_a_replay_neither_unsettles_nor_delays(processed: World) -> None:
    """A cursor that went back had acknowledged before; what comes meanwhile is settled when it is acknowledged for the first time."""
    processed.send("a", "b")
    processed.transfer_all()
    for name in ("billing", "audit"):
        consume(processed, name)
    assert settled(processed) == {"flights/1": 2, "flights/2": 2}
    processed.query("analytics", "select relaybox.replay('billing', 'earliest', 'again')")
    assert read(processed, "billing", "audit") == 2
    assert settled(processed) == {"flights/1": 2, "flights/2": 2}
    processed.send("c")
    processed.transfer_all()
    consume(processed, "audit")
    consume(processed, "billing", 2)
    assert read(processed, "billing", "audit") == 2
    consume(processed, "billing")
    assert settled(processed) == {"flights/1": 3, "flights/2": 3}


@pytest.mark.parametrize("topics", [["flights", "gates"], ["gates"]], ids=["of several", "the only one"])
def test_g7_a_subscription_to_one_topic_processes_no_stream(world: World, topics: list[str]) -> None:
    """Also where the stream has no other topic yet; the error names it, its topic and what to do, and what it says works."""
    world.change_route(topics=topics, policy="processed", processed_by=["billing"])
    world.query("analytics", "select relaybox.subscribe('billing', 'gates')")
    world.send("a gate", topic="gates")
    if topics == ["gates"]:
        world.transfer_all()
        with pytest.raises(errors.NotSubscribed):
            settle_hop(world.route, world.second_hop, recorded_by="test")
        world.change_route(topics=["flights", "gates"], policy="processed", processed_by=["billing"])
    world.send("a flight")
    world.transfer_all()
    assert consume(world, "billing") == 1
    with pytest.raises(errors.NotSubscribed, match=r"billing \(topic gates\)") as stopped:
        settle_hop(world.route, world.second_hop, recorded_by="test")
    assert "in place of billing, and run: relaybox init" in str(stopped.value)
    run = invoke("confirm", "flights")
    assert (run.exit_code, "relaybox.subscribe('ANOTHER-NAME', 'flights')" in " ".join(run.stderr.split())) == (5, True)
    assert world.query("hub", "select state, max(through_position) from relaybox_internal.confirmation group by 1") == [
        ("received", 2)
    ]
    world.query("analytics", "select relaybox.subscribe('all', 'flights')")
    world.change_route(topics=["flights", "gates"], policy="processed", processed_by=["all"])
    assert settled(world) == {"flights/1": 0, "flights/2": 0}
    assert consume(world, "all") == 2
    assert settled(world) == {"flights/1": 2, "flights/2": 2}


def test_g7_an_ended_subscription_stops_settling_and_says_so(processed: World) -> None:
    """What was received is recorded all the same; what was settled stays so; the next step is in the message."""
    processed.send("a")
    processed.transfer_all()
    for name in ("billing", "audit"):
        consume(processed, name)
    settled(processed)
    processed.query("analytics", "select relaybox.unsubscribe('audit', 'no longer needed')")
    processed.send("b")
    processed.transfer_all()
    processed.query(
        "hub",
        "delete from relaybox_internal.confirmation where hop = 'flights/2' and state = 'received' and through_position = 2",
    )
    with pytest.raises(errors.NotSubscribed, match="has no subscription audit to stream flights") as stopped:
        settle_hop(processed.route, processed.second_hop, recorded_by="test")
    assert "relaybox.subscribe('audit', 'flights', '2')" in str(stopped.value)
    assert processed.query(
        "hub", "select state, max(through_position) from relaybox_internal.confirmation group by 1 order by 1"
    ) == [
        ("processed", 1),
        ("received", 2),
        ("settled", 1),
    ]
    processed.change_route(policy="processed", processed_by=["billing"])
    consume(processed, "billing")
    assert settled(processed) == {"flights/1": 2, "flights/2": 2}


def test_g7_a_dead_letter_is_not_processed_until_an_operator_decides(processed: World) -> None:
    """Settling stops at the batch before it; a drop with a reason, or a redrive that is acknowledged, lets it go on."""
    for payload in ("a", "poison 1", "b", "poison 2", "c"):
        processed.send(payload)
        processed.transfer_all()
    consume(processed, "audit")
    for _ in range(2):
        consume(processed, "billing", 1)
        for _ in range(5):
            processed.query(
                "analytics", "select relaybox.nack('billing', stream_position, 'bad') from relaybox.fetch('billing', 1)"
            )
    assert consume(processed, "billing") == 1
    assert settled(processed) == {"flights/1": 1, "flights/2": 1}
    first, second = (
        row[0]
        for row in processed.query(
            "analytics", "select dead_letter_id from relaybox.dead_letters where state = 'open' order by stream_position"
        )
    )
    processed.query("analytics", "select relaybox.drop_dead_letter(%s, 'a test message')", first)
    assert settled(processed) == {"flights/1": 3, "flights/2": 3}
    processed.query("analytics", "select relaybox.redrive('billing', 'repaired', %s)", second)
    assert settled(processed) == {"flights/1": 3, "flights/2": 3}, "redriven is not acknowledged yet"
    assert consume(processed, "billing") == 1
    assert settled(processed) == {"flights/1": 5, "flights/2": 5}


def test_g7_idle_lanes_hold_nothing_up(processed: World) -> None:
    """A lane whose senders say nothing comes forward as its worker asks for more."""
    processed.query("analytics", "select relaybox.unsubscribe('billing')")
    processed.query("analytics", "select relaybox.subscribe('billing', 'flights', lanes => 4)")
    processed.send("a", "b")
    processed.transfer_all()
    consume(processed, "audit")
    while consume(processed, "billing"):
        pass
    assert settled(processed) == {"flights/1": 2, "flights/2": 2}


def test_g7_asking_makes_acknowledgements_durable(processed: World) -> None:
    """A consumer need not wait for the flush of its COMMIT; who confirms on its strength writes, so that its own COMMIT flushes both."""
    with processed.session("analytics") as session, session.cursor() as cursor:
        cursor.execute("select relaybox_internal.processed_reading('flights/2', array['billing'])")
        cursor.execute("select pg_current_xact_id_if_assigned() is not null, current_setting('synchronous_commit')")
        assert cursor.fetchone() == (True, "on")


@pytest.mark.parametrize("failpoint", [*PROCESSING_FAILPOINTS, "settle.recorded", "settle.committed"])
def test_g7_a_kill_between_processed_and_settled_loses_and_forges_nothing(
    processed: World, failpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are one transaction at the source; the next confirmation writes what is missing."""
    processed.send("a")
    processed.transfer_all()
    for name in ("billing", "audit"):
        consume(processed, name)
    with monkeypatch.context() as patch:
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS", f"{failpoint}=kill")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
        killed = subprocess.run([sys.executable, "-c", CONFIRM], capture_output=True, timeout=patience(60), check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    states = processed.query("hub", "select state from relaybox_internal.confirmation where hop = 'flights/2' order by 1")
    if failpoint == "settle.committed":
        assert states == [("processed",), ("received",), ("settled",)]
    else:
        assert states == [("received",)]
    assert settled(processed) == {"flights/1": 1, "flights/2": 1}


@pytest.mark.parametrize("seed", range(2))
def test_g7_processed_is_what_a_look_at_every_message_says(world: World, seed: int) -> None:
    """Numbered messages come late, doubled and beyond gaps: never early, and complete when the consumer is done."""
    world.change_route(policy="processed", processed_by=["billing"], order="fifo")
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    world.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    chance = random.Random(seed)
    print(f"seed {seed}")
    indexes = [*range(1, 13), *chance.choices(range(1, 13), k=4)]
    chance.shuffle(indexes)
    while indexes:
        batch, indexes = indexes[:3], indexes[3:]
        for index in batch:
            insert = "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'pump', %s, %s)"
            world.query("airline", insert, index, f"m{index}")
        world.transfer_all()
        consume(world, "billing", chance.randint(0, 3) or 1)
        found = world.value(
            "analytics", "select through_position from relaybox_internal.processed_reading('flights/2', array['billing'])"
        )
        assert found <= processed_by_each_message(world)
    while consume(world, "billing"):
        pass
    assert settled(world) == {"flights/1": 16, "flights/2": 16}


def processed_by_each_message(world: World) -> int:
    """The positions of the log, one by one, until one is neither delivered and acknowledged nor dropped."""
    done = world.value("analytics", "select done_stream_position from relaybox.subscriptions")
    delivered = dict(
        world.query("analytics", "select log_position, stream_position from relaybox.read_stream('flights', 0, 1000)")
    )
    dropped = {row[0] for row in world.query("analytics", "select unnest(duplicates) from relaybox_internal.decision")}
    log_position = 0
    while log_position + 1 in dropped or delivered.get(log_position + 1, done + 1) <= done:
        log_position += 1
    return log_position


def test_g7_a_dead_letter_of_a_replay_takes_nothing_back(processed: World) -> None:
    """A message that was acknowledged stays processed, though a consumer refuses it when it is read again; a new one does not."""
    processed.send("a", "b")
    processed.transfer_all()
    for name in ("billing", "audit"):
        consume(processed, name)
    reading = "select through_position from relaybox_internal.processed_reading('flights/2', '{billing}')"
    assert processed.value("analytics", reading) == 2
    processed.query("analytics", "update relaybox_internal.subscription set nack_limit = 1, hold_sender = true")
    processed.query("analytics", "select relaybox.replay('billing', 'earliest', 'again')")
    processed.query("analytics", "select relaybox.nack('billing', stream_position, 'bad') from relaybox.fetch('billing', 1)")
    assert processed.value("analytics", "select count(*) from relaybox.dead_letters where state = 'open'") == 1
    assert processed.value("analytics", reading) == 2
    processed.send("c")
    processed.transfer_all()
    assert consume(processed, "billing") == 0
    assert processed.query(
        "analytics", "select stream_position, reason from relaybox.dead_letters where state = 'open' order by stream_position"
    ) == [
        (1, "refused"),
        (2, "waits_behind"),
        (3, "waits_behind"),
    ]
    assert processed.value("analytics", reading) == 2
