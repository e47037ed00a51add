"""Messages that are delivered later than they come: no fetch returns one before it is due, and each comes once."""

from __future__ import annotations

import dataclasses
import random
from uuid import UUID

import psycopg2
import pytest

from relaybox.airflow.store_watch import WORK_OF_SUBSCRIPTIONS
from relaybox.consumer import Consumer
from relaybox.monitoring.message_timeline import moments
from relaybox.monitoring.message_trace import DelayTrace, trace_message
from relaybox.recovery.restoring import restore_subscriptions
from relaybox.subscriptions.subscriptions import list_subscriptions
from tests.support.streams import ack, fetch, nack, stream_positions, token
from tests.support.world import World, wait_until

STORE = "hub"
PAST, HOUR, DAY, YEAR = -60.0, 3600.0, 86400.0, 365 * 86400.0


def send(world: World, *delays: float | None, sender: str = "UA", expires: float | None = None) -> None:
    """Sends a message for each number of seconds from now until it is due; None: it is not delayed. Moves them to the hub."""
    put(world, *delays, sender=sender, expires=expires)
    world.transfer(world.first_hop)


def put(world: World, *delays: float | None, sender: str = "UA", expires: float | None = None) -> None:
    """As send(), but leaves them in the outbox."""
    for delay in delays:
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', %s, 'm',"
            " nullif(jsonb_strip_nulls(jsonb_build_object("
            "'relaybox-deliver-after', extract(epoch from clock_timestamp()) + %s,"
            " 'relaybox-expires-at', extract(epoch from clock_timestamp()) + %s)), '{}'))",
            sender,
            delay,
            expires,
        )


def subscribe(world: World, delayed: str = "hold", options: str = "", name: str = "billing") -> None:
    world.query(STORE, f"select relaybox.subscribe(%s, 'flights', delayed => %s{options})", name, delayed)


def pass_time(world: World, seconds: float) -> None:
    """The messages, and what was noted of them, as if they had been sent so many seconds earlier."""
    world.query(
        STORE,
        """
        update relaybox_internal.log l set headers = l.headers || jsonb_strip_nulls(jsonb_build_object(
            'relaybox-deliver-after', (l.headers ->> 'relaybox-deliver-after')::numeric - %s,
            'relaybox-expires-at', (l.headers ->> 'relaybox-expires-at')::numeric - %s
        ))
        where l.headers is not null
        """,
        seconds,
        seconds,
    )
    for table in ("cursor", "dead_letter"):
        world.query(STORE, f"update relaybox_internal.{table} set due_at = due_at - make_interval(secs => %s)", seconds)


def read_all(world: World, count: int = 100, name: str = "billing") -> list[int]:
    """What a worker gets until it gets nothing, in the order in which it comes; acknowledged."""
    got: list[int] = []
    while rows := fetch(world, count, name):
        got += stream_positions(rows)
        ack(world, rows[-1][0], name, lane=rows[-1][1])
    return got


def passed(world: World) -> list[tuple[object, ...]]:
    return world.query(
        STORE, "select stream_position, state, reason from relaybox.dead_letters where subscription = 'billing' order by 1"
    )


def lanes(world: World) -> list[tuple[object, ...]]:
    """Of each lane: done through, held, messages that were passed."""
    return world.query(
        STORE,
        "select done_stream_position, coalesce(due_at > clock_timestamp(), false), delayed_messages"
        " from relaybox.lag('billing') order by lane",
    )


def change(world: World, delayed: str) -> str:
    return str(world.value(STORE, "select relaybox.change_delayed('billing', %s, 'ticket 4711')", delayed))


# --- hold -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_held_lane_gives_what_is_before_the_delayed_message_and_then_goes_on_in_order(world: World, size: int) -> None:
    """The order is the stream's, whatever is fetched at once; what is due already delays nothing."""
    subscribe(world)
    send(world, None, PAST, HOUR, None, 2 * HOUR, None)
    assert read_all(world, size) == [1, 2]
    assert lanes(world) == [(2, True, 0)]
    assert passed(world) == []
    pass_time(world, HOUR)
    assert read_all(world, size) == [3, 4]
    pass_time(world, HOUR)
    assert read_all(world, size) == [5, 6]
    assert lanes(world) == [(6, False, 0)]


def test_a_delayed_message_holds_its_own_lane_only(world: World) -> None:
    """The other lanes go on; each sender keeps its order."""
    subscribe(world, options=", lanes => 4")
    for number in range(12):
        send(world, HOUR if number == 4 else None, None, sender=f"s{number}")
    held_lane = world.value(STORE, "select relaybox_internal.lane_of('sender', 4, 's4', null)")
    senders = dict(world.query(STORE, "select stream_position, sender from relaybox.read_stream('flights', 0, 100)"))
    before = set(read_all(world))
    behind = {
        position
        for position, sender in senders.items()
        if position >= 9 and world.value(STORE, "select relaybox_internal.lane_of('sender', 4, %s, null)", sender) == held_lane
    }
    assert before == set(senders) - behind
    assert {9, 10} <= behind
    assert [held for _, held, _ in lanes(world)] == [lane == held_lane for lane in (1, 2, 3, 4)]
    pass_time(world, HOUR)
    assert read_all(world) == sorted(behind)


def test_a_held_lane_is_found_at_the_edge_of_a_batch_and_of_a_fetch(world: World) -> None:
    """The delayed message is the last of its batch, the first of one, and the only one of one."""
    subscribe(world)
    send(world, None, None, HOUR)
    send(world, HOUR, None)
    send(world, HOUR)
    assert read_all(world, 2) == [1, 2]
    pass_time(world, HOUR)
    assert read_all(world, 2) == [3, 4, 5, 6]


def test_with_hold_sender_a_dead_letter_and_a_delayed_message_both_hold(world: World) -> None:
    """The lane waits for the delayed one; the sender of the dead letter waits for that."""
    subscribe(world, options=", hold_sender => true, nack_limit => 1")
    send(world, None, None, sender="early")
    send(world, HOUR, sender="late")
    send(world, None, sender="early")
    assert stream_positions(fetch(world, 1)) == [1]
    nack(world, 1)
    assert read_all(world) == []
    assert lanes(world) == [(2, True, 0)]
    pass_time(world, HOUR)
    assert read_all(world) == [3]
    assert passed(world) == [(1, "open", "refused"), (2, "open", "waits_behind"), (4, "open", "waits_behind")]


def test_a_fetch_that_is_rolled_back_or_killed_changes_nothing_of_a_held_lane(world: World) -> None:
    """Before, at and after the delayed message; what was fetched and not acknowledged comes again, and nothing else."""
    subscribe(world)
    send(world, None, HOUR, None)
    for _ in range(2):
        with world.session(STORE) as session:
            session.cursor().execute("select * from relaybox.fetch('billing', 10, worker => 'a')")
            session.rollback()
        assert lanes(world) == [(0, False, 0)]
    assert stream_positions(fetch(world, 10)) == [1]
    pass_time(world, HOUR)
    assert stream_positions(fetch(world, 10)) == [1], "the fetch that was not acknowledged, though more is due by now"
    ack(world, 1)
    assert stream_positions(fetch(world, 10)) == [2, 3]


def test_a_clock_that_steps_back_takes_nothing_from_a_worker(world: World) -> None:
    """A message that was given comes again until it is acknowledged, also while the clock says that it is not due."""
    subscribe(world)
    send(world, PAST, None)
    assert stream_positions(fetch(world, 10)) == [1, 2]
    pass_time(world, -HOUR)
    assert stream_positions(fetch(world, 10)) == [1, 2]
    ack(world, 2)
    assert read_all(world) == []


@pytest.mark.parametrize("delayed", ["hold", "pass"])
def test_a_delayed_message_that_expires_first_is_a_dead_letter_and_holds_nobody_longer(world: World, delayed: str) -> None:
    """An earlier version's outbox let in a message that expires before it may be delivered."""
    subscribe(world, delayed)
    send(world, HOUR, None, expires=2 * HOUR)
    pass_time(world, 0)
    world.query(
        STORE,
        "update relaybox_internal.log set headers = headers || jsonb_build_object('relaybox-deliver-after', 4e9)"
        " where log_position = 1",
    )
    assert read_all(world) == ([] if delayed == "hold" else [2])
    pass_time(world, 2 * HOUR)
    assert read_all(world) == []
    expired = [(1, "open", "expired")] + ([(2, "open", "expired")] if delayed == "hold" else [])
    assert passed(world) == expired
    assert lanes(world) == [(2, False, 0)]


@pytest.mark.parametrize("delayed", ["hold", "pass"])
def test_a_message_that_is_due_and_expired_when_its_consumer_comes_back_is_a_dead_letter(world: World, delayed: str) -> None:
    subscribe(world, delayed)
    send(world, HOUR, expires=2 * HOUR)
    assert read_all(world) == []
    pass_time(world, 3 * HOUR)
    assert read_all(world) == []
    assert passed(world) == [(1, "open", "expired")]


# --- pass -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("options", ["", ", lanes => 3"], ids=["one lane", "three lanes"])
def test_a_passed_message_comes_once_when_it_is_due(world: World, size: int, options: str) -> None:
    """Those behind it go on; nothing of it is left when it is acknowledged."""
    subscribe(world, "pass", options)
    send(world, HOUR, None, 2 * HOUR, HOUR, None, HOUR)
    assert read_all(world, size) == [2, 5]
    assert passed(world) == [(position, "delayed", "delayed") for position in (1, 3, 4, 6)]
    assert sum(count for *_, count in lanes(world)) == 4  # type: ignore[misc]
    pass_time(world, HOUR)
    assert read_all(world, size) == [1, 4, 6]
    pass_time(world, HOUR)
    assert read_all(world, size) == [3]
    assert passed(world) == []
    assert read_all(world, size) == []


@pytest.mark.parametrize("options", ["", ", lanes => 2"], ids=["one lane", "two lanes"])
def test_verification_knows_messages_that_were_passed_and_acknowledged(world: World, options: str) -> None:
    """The cursor went past them when no fetch had given them, and their rows are gone."""
    subscribe(world, "pass", options)
    for _ in range(2):
        send(world, None)
        assert len(read_all(world)) == 1
    send(world, HOUR)
    assert read_all(world) == []
    send(world, None)
    assert read_all(world) == [4]
    pass_time(world, HOUR + 1)
    assert read_all(world) == [3]
    assert world.query("hub", "select example from relaybox_internal.find_wrong_cursors('flights')") == []


def test_a_passed_message_is_refused_and_comes_again_as_every_other(world: World) -> None:
    """Its attempts count; the last refusal makes it a dead letter, which is redriven."""
    subscribe(world, "pass", ", nack_limit => 2")
    send(world, HOUR, None)
    assert read_all(world) == [2]
    pass_time(world, HOUR)
    assert [(row[0], row[2], row[3]) for row in fetch(world, 10)] == [(1, False, 1)]
    nack(world, 1)
    assert [(row[0], row[3]) for row in fetch(world, 10)] == [(1, 2)]
    nack(world, 1)
    assert passed(world) == [(1, "open", "refused")]
    world.query(STORE, "select relaybox.redrive('billing', 'again')")
    assert read_all(world) == [1]
    assert passed(world) == [(1, "redriven", "refused")]


def test_a_rolled_back_fetch_passes_nothing_and_gives_nothing(world: World) -> None:
    """The row of a passed message commits with the fetch that passes it, and so does that it was given."""
    subscribe(world, "pass")
    send(world, HOUR, None)
    for expected in ([], [(1, "delayed", "delayed")]):
        with world.session(STORE) as session:
            session.cursor().execute("select * from relaybox.fetch('billing', 10, worker => 'a')")
            session.rollback()
        assert passed(world) == expected
        if not expected:
            assert read_all(world) == [2]
            pass_time(world, HOUR)
    assert read_all(world) == [1]


def test_a_passed_message_that_its_worker_does_not_acknowledge_comes_again_alone(world: World) -> None:
    """More that became due meanwhile waits for its own fetch: a token acknowledges what its fetch gave."""
    subscribe(world, "pass")
    send(world, 2 * HOUR, HOUR, None)
    assert read_all(world) == [3]
    pass_time(world, HOUR)
    assert stream_positions(fetch(world, 10)) == [2]
    pass_time(world, HOUR)
    assert stream_positions(fetch(world, 10)) == [2]
    ack(world, 2)
    assert read_all(world) == [1]


def test_a_delayed_message_is_given_now_or_given_up_by_its_number(world: World) -> None:
    """As dead letters are; a redrive of all leaves it alone."""
    subscribe(world, "pass")
    send(world, YEAR, YEAR, None)
    assert read_all(world) == [3]
    first, second = world.query(STORE, "select dead_letter_id from relaybox.dead_letters order by stream_position")
    assert world.value(STORE, "select relaybox.redrive('billing', 'all')") == 0
    assert world.value(STORE, "select relaybox.redrive('billing', 'now', %s)", first[0]) == 1
    world.query(STORE, "select relaybox.drop_dead_letter(%s, 'never')", second[0])
    assert read_all(world) == [1]
    assert passed(world) == [(2, "dropped", "delayed")]
    pass_time(world, YEAR)
    assert read_all(world) == []


def test_the_end_of_a_subscription_leaves_no_passed_message_as_a_dead_letter(world: World) -> None:
    """Neither one that is not due, nor one that a worker has."""
    subscribe(world, "pass")
    send(world, HOUR, 2 * HOUR, None)
    assert read_all(world) == [3]
    pass_time(world, HOUR)
    assert stream_positions(fetch(world, 10)) == [1]
    world.query(STORE, "select relaybox.unsubscribe('billing', 'over')")
    assert world.query(STORE, "select state, reason from relaybox_internal.dead_letter") == []


def test_pass_and_hold_sender_contradict_each_other(world: World) -> None:
    with pytest.raises(psycopg2.Error, match=r"choose hold") as refused:
        subscribe(world, "pass", ", hold_sender => true")
    assert refused.value.pgcode == "RB036"
    subscribe(world, "hold", ", hold_sender => true")
    with pytest.raises(psycopg2.Error, match="choose hold"):
        change(world, "pass")
    with pytest.raises(psycopg2.Error, match="must be hold, pass or ignore"):
        change(world, "later")


# --- what both have -------------------------------------------------------------------------------------------------------


def test_the_way_changes_in_the_middle_without_a_message_lost_or_doubled(world: World) -> None:
    """hold to pass frees the lane; pass to hold and to ignore still gives what was passed."""
    subscribe(world)
    send(world, YEAR, None, HOUR, None)
    assert read_all(world) == []
    assert change(world, "pass") == "hold"
    assert lanes(world) == [(0, False, 0)]
    assert read_all(world) == [2, 4]
    assert change(world, "hold") == "pass"
    send(world, None, YEAR, None)
    assert read_all(world) == [5]
    pass_time(world, HOUR)
    assert read_all(world) == [3], "passed before, and due"
    assert change(world, "ignore") == "hold"
    assert read_all(world) == [1, 6, 7]
    assert passed(world) == []
    assert world.query(
        STORE,
        "select detail ->> 'before', detail ->> 'delayed', reason from relaybox.consumer_action where action = 'change_delayed'",
    ) == [("hold", "pass", "ticket 4711"), ("pass", "hold", "ticket 4711"), ("hold", "ignore", "ticket 4711")]


def test_a_replay_and_a_second_cursor_read_history_at_once(world: World) -> None:
    """Also what the subscription has passed, and not got yet; the cursor itself does not get it before it is due."""
    subscribe(world, "pass")
    send(world, HOUR, None)
    assert read_all(world) == [2]
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'compare', through => '2', second_cursor => true)")
    assert read_all(world, name="billing.replay-1") == [1, 2]
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'again')")
    assert read_all(world) == [2]
    pass_time(world, HOUR)
    assert read_all(world) == [1]
    pass_time(world, -2 * HOUR)
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'all was acknowledged')")
    assert read_all(world) == [1, 2]


def test_a_passed_message_that_is_given_while_a_replay_is_before_it_does_not_come_twice(world: World) -> None:
    subscribe(world, "pass")
    send(world, HOUR, None)
    assert read_all(world) == [2]
    pass_time(world, HOUR)
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'again')")
    assert read_all(world) == [1, 2]


def test_a_second_cursor_of_a_held_lane_and_ignore_get_delayed_messages_at_once(world: World) -> None:
    subscribe(world)
    subscribe(world, "ignore", name="audit")
    send(world, None, HOUR, None)
    assert read_all(world, name="audit") == [1, 2, 3]
    assert read_all(world) == [1]
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'look', through => '3', second_cursor => true)")
    assert read_all(world, name="billing.replay-1") == [1, 2, 3]
    with pytest.raises(psycopg2.Error, match="reads history"):
        world.query(STORE, "select relaybox.change_delayed('billing.replay-1', 'hold', 'why')")


def test_hops_and_read_stream_carry_delayed_messages(world: World) -> None:
    """The next store gets the message at once and decides by its own clock."""
    send(world, YEAR, None)
    world.transfer_all()
    for store in (STORE, "analytics"):
        assert world.query(store, "select stream_position from relaybox.read_stream('flights')") == [(1,), (2,)]
        assert world.value(store, "select has_delay and not has_expiry from relaybox_internal.stream")


@pytest.mark.parametrize("delayed", ["hold", "pass"])
def test_a_message_that_is_delayed_for_ever_keeps_its_segment_until_its_subscription_ends(world: World, delayed: str) -> None:
    """Nobody else needs it; retention names who does."""
    subscribe(world, delayed)
    send(world, 1000 * YEAR, None)
    assert read_all(world) == ([] if delayed == "hold" else [2])
    holders = world.query(STORE, "select kind, holder, needs_from from relaybox_internal.log_holders(1)")
    kinds = {kind: (holder, needs_from) for kind, holder, needs_from in holders}
    if delayed == "hold":
        assert kinds["subscription"] == ("billing", 1)
    else:
        holder, needs_from = kinds["delayed message"]
        assert (holder.endswith(" of subscription billing"), needs_from) == (True, 1)
    world.query(STORE, "select relaybox.unsubscribe('billing', 'nobody waits any more')")
    left = world.query(STORE, "select kind from relaybox_internal.log_holders(1)")
    assert not {"subscription", "delayed message", "dead letter"} & {kind for (kind,) in left}


def test_a_stopped_consumer_counts_from_when_a_message_is_due(world: World) -> None:
    """A held lane, and a passed message that is not due, are no alarm; nor are they work for a DAG that is started by messages."""
    subscribe(world)
    subscribe(world, "pass", name="fast")
    send(world, HOUR, None)
    assert (read_all(world), read_all(world, name="fast")) == ([], [2])
    world.query(STORE, "update relaybox_internal.cursor set moved_at = moved_at - interval '2 hours'")
    world.query(STORE, "update relaybox_internal.decision set decided_at = decided_at - interval '2 hours'")
    assert waiting(world) == {"billing": 0, "fast": 0}
    assert work(world) == {"billing": False, "fast": False}
    assert world.value(STORE, "select waiting_since from relaybox.lag('billing')") is None
    pass_time(world, HOUR + 600)
    assert all(590 < seconds < 700 for seconds in waiting(world).values())
    assert work(world) == {"billing": True, "fast": True}
    assert world.value(STORE, "select extract(epoch from now() - waiting_since) between 590 and 700 from relaybox.lag('billing')")


def test_a_lane_that_is_held_has_not_stopped(world: World) -> None:
    """Its messages are not detached; when the delayed one is due, the time of a stopped consumer begins."""
    world.query(
        STORE,
        "update relaybox_internal.hop_in set stopped_consumer = 'detach', detach_after_seconds = 3600, detach_to = '/d'",
    )
    subscribe(world)
    send(world, HOUR, None)
    assert read_all(world) == []
    for table, column in (("cursor", "moved_at"), ("decision", "decided_at"), ("delivery", "delivered_at")):
        world.query(STORE, f"update relaybox_internal.{table} set {column} = {column} - interval '3 hours'")
    stopped = "select has_stopped from relaybox_internal.list_subscription_holders(1)"
    assert world.query(STORE, stopped) == [(False,)]
    pass_time(world, HOUR + 600)
    assert world.query(STORE, stopped) == [(False,)]
    pass_time(world, HOUR)
    assert world.query(STORE, stopped) == [(True,)]


@pytest.mark.parametrize("delayed", ["hold", "pass"])
def test_g7_a_delayed_message_is_not_processed_before_it_is_acknowledged(world: World, delayed: str) -> None:
    """Nor is what came after it, also where it was passed."""
    subscribe(world, delayed)
    send(world, None)
    send(world, HOUR, None)
    read_all(world)
    processed = "select through_position from relaybox_internal.processed_through(1, 1, array['billing'])"
    assert world.value(STORE, processed) == 1
    pass_time(world, HOUR)
    read_all(world)
    assert world.value(STORE, processed) == 3


def test_what_was_passed_is_restored_with_its_subscription(world: World) -> None:
    """Of a store that is rebuilt: the cursor is beyond these messages, and their rows are lost."""
    subscribe(world, "pass", ", lanes => 2")
    for number in range(4):
        send(world, HOUR, None, sender=f"s{number}")
    assert sorted(read_all(world)) == [2, 4, 6, 8]
    store = world.routes.stores[STORE]
    saved = [dataclasses.asdict(one) for one in list_subscriptions(store)]
    assert saved[0]["delayed_stream_positions"] == [1, 3, 5, 7]
    world.query(STORE, "select relaybox.unsubscribe('billing', 'the store was lost')")
    assert passed(world) == []
    assert [one.doubt for one in restore_subscriptions(store, saved, {})] == [None]
    assert read_all(world) == []
    pass_time(world, HOUR)
    assert sorted(read_all(world)) == [1, 3, 5, 7]


def waiting(world: World) -> dict[str, float]:
    return {
        labels["subscription"]: seconds
        for labels, seconds in world.query(
            STORE,
            "select labels, value from relaybox_internal.subscription_metrics()"
            " where metric = 'relaybox_watermark_age_seconds' and labels ->> 'watermark' = 'acknowledged'",
        )
    }


def work(world: World) -> dict[str, bool]:
    with world.session(STORE, autocommit=True) as session:
        return {name: found.has_work for name, found in WORK_OF_SUBSCRIPTIONS.ask(session).items()}


def test_a_listing_says_what_is_held_and_until_when(world: World) -> None:
    subscribe(world)
    subscribe(world, "pass", name="fast")
    send(world, HOUR, None)
    assert (read_all(world), read_all(world, name="fast")) == ([], [2])
    found = {one.subscription: one for one in list_subscriptions(world.routes.stores[STORE])}
    assert [(one.delayed, one.held_lanes, one.delayed_messages, one.dead_letters) for one in found.values()] == [
        ("hold", 1, 0, 0),
        ("pass", 0, 1, 0),
    ]
    assert found["billing"].due_at == found["fast"].due_at is not None
    pass_time(world, HOUR)
    assert stream_positions(fetch(world, 10, "fast")) == [1]
    again = {one.subscription: one for one in list_subscriptions(world.routes.stores[STORE])}
    assert (again["fast"].dead_letters, again["fast"].delayed_messages) == (0, 0), "a message on its way is no dead letter"


def test_where_says_until_when_a_message_is_not_due(world: World) -> None:
    """And for which subscriptions, as their newest fetches found; not of the messages behind it, nor once it is due."""
    subscribe(world)
    subscribe(world, "pass", name="fast")
    send(world, HOUR, None)
    assert (read_all(world), read_all(world, name="fast")) == ([], [2])
    first, second = (row[0] for row in world.query("airline", "select message_id from relaybox.outbox order by seq"))
    assert [one.subscription for one in not_due(world, first)] == ["billing", "fast"]
    (trace,) = trace_message([world.route], UUID(str(first)))
    assert any("; not due until " in moment.what and "Z for subscription fast" in moment.what for moment in moments(trace))
    assert not_due(world, second) == ()
    pass_time(world, HOUR)
    assert [one.subscription for one in not_due(world, first)] == ["fast"], "due, and not fetched"
    assert (read_all(world), read_all(world, name="fast")) == ([1, 2], [1])
    assert not_due(world, first) == ()


def not_due(world: World, message_id: str) -> tuple[DelayTrace, ...]:
    (trace,) = trace_message([world.route], UUID(str(message_id)))
    assert trace.hops[0].delivered is not None
    return trace.hops[0].delivered.not_due


@pytest.mark.parametrize("delayed", ["hold", "pass"])
def test_rest_seconds_is_until_the_next_message_is_due(world: World, delayed: str) -> None:
    """Of the lane that is due first, and never longer than asked for; a lane that another worker has waits for its lease."""
    subscribe(world, delayed)
    send(world, 5.0, 60.0)
    assert read_all(world) == []
    rest = "select relaybox.rest_seconds('billing', longest => %s)"
    assert 1 < world.value(STORE, rest, 100) <= 5.1
    assert world.value(STORE, rest, 0.5) == 0.5
    pass_time(world, 5)
    assert world.value(STORE, rest, 100) <= 1, "due: the next look is soon"
    assert stream_positions(fetch(world, 10)) == [1]
    assert world.value(STORE, rest, 100) > 50, "leased"


@pytest.mark.parametrize(("delayed", "handled"), [("hold", [1]), ("pass", [1, 3])])
def test_a_consumer_that_reads_until_empty_ends_though_messages_are_not_due(
    world: World, delayed: str, handled: list[int]
) -> None:
    """It leaves nothing unread: nobody could read it now."""
    subscribe(world, delayed)
    send(world, None, HOUR, None)
    with Consumer(STORE, "billing", until_empty=True) as consumer:
        assert [message.stream_position for message in consumer] == handled
    assert consumer.unread == ()


def test_a_consumer_of_an_earlier_version_of_the_functions_goes_on_beside_an_upgrade(world: World) -> None:
    """A session that fetched before, with statements that are prepared, gets the same messages and no error."""
    subscribe(world)
    send(world, None)
    with world.session(STORE, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("prepare f as select stream_position from relaybox.fetch('billing', 10, worker => 'a')")
        cursor.execute("execute f")
        assert cursor.fetchall() == [(1,)]
        world.query(STORE, "update relaybox_internal.installed_object set digest = 'older'")
        world.initialise()
        send(world, HOUR, None)
        cursor.execute("execute f")
        assert cursor.fetchall() == [(1,)]
        cursor.execute("select relaybox.ack('billing', 1, %s)", (token(world),))
        cursor.execute("execute f")
        assert cursor.fetchall() == []
    assert lanes(world) == [(1, True, 0)]


@pytest.mark.parametrize("value", ['"2027-01-01T00:00:00Z"', "null", "-1", "1e12", "[1]", "{}"])
def test_the_outbox_refuses_a_delay_that_is_no_time(world: World, value: str) -> None:
    """With the name of the rule, as it refuses every other message."""
    with pytest.raises(psycopg2.errors.CheckViolation, match="deliver_after_is_seconds_since_1970"):
        _insert(world, f'{{"relaybox-deliver-after": {value}}}')


def test_a_time_that_is_no_double_precision_stops_nobody(world: World) -> None:
    """A number of JSON may have any number of digits: the outbox takes it, so each reader has to."""
    subscribe(world)
    _insert(world, '{"relaybox-deliver-after": 1e-400}')
    _insert(world, '{"relaybox-expires-at": 1e-400}')
    _insert(world, f'{{"relaybox-deliver-after": 1.{"3" * 400}}}')
    world.transfer(world.first_hop)
    assert world.query(STORE, "select has_expiry, has_delay from relaybox_internal.stream") == [(True, True)]
    assert read_all(world) == [1, 3]
    assert passed(world) == [(2, "open", "expired")]


def test_the_outbox_refuses_a_message_that_expires_before_it_may_be_delivered(world: World) -> None:
    with pytest.raises(psycopg2.errors.CheckViolation, match="deliver_after_is_before_expires_at"):
        _insert(world, '{"relaybox-deliver-after": 10, "relaybox-expires-at": 10}')
    _insert(world, '{"relaybox-deliver-after": 10, "relaybox-expires-at": 10.5}')


def _insert(world: World, headers: str) -> None:
    world.query(
        "airline", "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', 'm', %s)", headers
    )


def test_a_stream_without_delayed_messages_stays_in_the_usual_fetch(world: World) -> None:
    """Other headers do not count, nor do values of the header that only an earlier version's outbox took."""
    send(world, None)
    _insert(world, '{"relaybox-expires-at": 9e9}')
    world.transfer(world.first_hop)
    assert world.value(STORE, "select has_expiry and not has_delay from relaybox_internal.stream")
    for value in ('{"relaybox-deliver-after": "soon"}', '{"relaybox-deliver-after": 1e300}', '{"relaybox-deliver-after": null}'):
        assert world.value(STORE, "select relaybox_internal.due_at(%s::jsonb)", value) is None


@pytest.mark.parametrize("with_index", [False, True], ids=["no index", "own indexes"])
@pytest.mark.parametrize("delayed", [None, 1, 25_000], ids=["none", "the first", "the last"])
def test_the_count_of_a_batch_looks_for_delay_so_that_its_decision_does_not(
    world: World, with_index: bool, delayed: int | None
) -> None:
    """The session that counted a batch without delay notes it; each message of the batch expires, which says nothing of delay."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, index, payload, headers)"
        " select 'flights', 'UA', case when %s then n end, 'm', '{\"relaybox-expires-at\": 9e9}'::jsonb"
        " || case when n = %s then '{\"relaybox-deliver-after\": 8e9}'::jsonb else '{}' end"
        " from generate_series(1, 25000) n",
        with_index,
        delayed,
    )
    world.transfer(world.first_hop)
    assert world.query(STORE, "select has_expiry, has_delay from relaybox_internal.stream") == [(True, delayed is not None)]
    with world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute("select relaybox_internal.count_batch_rows(h, 1, 1, 25000) from relaybox_internal.hop_in h")
        cursor.execute("select current_setting('relaybox.without_expiry', true), current_setting('relaybox.without_delay', true)")
        expiry, delay = cursor.fetchone()
    assert ((expiry or ""), (delay or "")) == ("", "1 1 25000" if delayed is None else "")


# --- random walks against the rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("delayed", ["hold", "pass"])
@pytest.mark.parametrize("seed", range(4))
def test_random_walks_give_each_message_once_when_the_rules_say_so(world: World, delayed: str, seed: int) -> None:
    """Sends, time that passes, fetches of any size with and without an acknowledgement, and rolled back ones."""
    chance = random.Random(seed)
    subscribe(world, delayed)
    got: list[int] = []
    due: list[float] = []
    now = 0.0
    for _ in range(25):
        step = chance.choice(("send", "time", "fetch", "fetch", "fetch", "roll back"))
        if step == "send":
            delays = [chance.choice((None, None, HOUR, 2 * HOUR)) for _ in range(chance.randint(1, 5))]
            send(world, *delays)
            due += [now + (delay or 0.0) for delay in delays]
        elif step == "time":
            pass_time(world, HOUR)
            now += HOUR
        elif step == "roll back":
            with world.session(STORE) as session:
                session.cursor().execute("select * from relaybox.fetch('billing', 3, worker => 'a')")
                session.rollback()
        else:
            rows = fetch(world, chance.randint(1, 4))
            given = stream_positions(rows)
            assert all(due[position - 1] <= now for position in given), (seed, given)
            if given and chance.random() < 0.8:
                through = chance.choice(given)
                ack(world, through)
                got += [position for position in given if position <= through]
    pass_time(world, 3 * HOUR)
    got += read_all(world, 3)
    assert sorted(got) == list(range(1, len(due) + 1)), (seed, got)
    if delayed == "hold":
        assert got == sorted(got)


def test_waiting_is_bounded(world: World) -> None:
    """A worker that polls gets a message soon after it is due, by the store's clock."""
    subscribe(world)
    send(world, 1.5)
    wait_until(lambda: read_all(world) == [1], "the message is due")
    lateness = "select clock_timestamp() - relaybox_internal.due_at(headers) between interval '0' and interval '30 seconds' from relaybox_internal.log"
    assert world.value(STORE, lateness)
