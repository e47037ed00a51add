"""What a lane of a subscription gives, keeps and counts is the same whether it is alone or beside others: lanes, subscriptions, streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.two_logs import fill_two_logs
from tests.support.streams import deliver
from tests.support.world import World

STORE = "hub"
LOOKS = """
    select done_stream_position, fetched_stream_position, last_stream_position, stream_positions_behind, waiting_since is null, worker, replaying, failing, dead_letters
    from relaybox.lag('billing') where lane = 1;
    select stream_position, state, reason, attempts, sender, acknowledged_before, given_ahead from relaybox_internal.dead_letter
        where {own} and lane = 1 order by 1;
    select stream_position, attempts, reason from relaybox_internal.failed_attempt where {own} and lane = 1 order by 1;
    select version, done_stream_position, fetched_stream_position, redrive_stream_position, fetch_count, suspect_stream_position, suspect_rows, worker, replay_stream_position
    from relaybox_internal.cursor where {own} and lane = 1 order by 1;
    select action, detail - 'dead_letter_id', reason from relaybox.consumer_action where subscription = 'billing' order by action_id
"""
OWN = (
    "subscription_id = (select s.subscription_id from relaybox_internal.subscription s where s.subscription = 'billing' "
    "and s.ended_at is null)"
)
LETTERS = """
insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason, subscription_id, lane, stream_position, sender, state)
select s.stream_id, 1, p, case mod(p, 3) when 0 then 'refused' else 'waits_behind' end, s.subscription_id, %(lane)s, p, m.sender,
    (array['open', 'redriving', 'redriven', 'dropped'])[1 + mod(p, 4)]
from relaybox_internal.subscription s, generate_series(31, 60) p cross join lateral (values ('s' || 1 + mod(p - 31, 3))) m (sender)
where s.subscription_id = %(id)s and (%(lane)s = 1 or relaybox_internal.lane_of(s.lane_by, s.lanes, m.sender, null) = %(lane)s)
"""
ATTEMPTS = """
insert into relaybox_internal.failed_attempt (subscription_id, lane, stream_position, attempts, last_by, reason)
select d.subscription_id, d.lane, d.stream_position, 4, 'a neighbour', 'no' from relaybox_internal.dead_letter d
where d.subscription_id = %(id)s and d.lane = %(lane)s
"""
OTHERS = """
select jsonb_agg(t.one order by t.one::text) from (
    select to_jsonb(c) as one, c.subscription_id, c.lane from relaybox_internal.lane_cursors c
    union all
    select to_jsonb(d), d.subscription_id, d.lane from relaybox_internal.dead_letter d
    union all
    select to_jsonb(f), f.subscription_id, f.lane from relaybox_internal.failed_attempt f
) t
where t.lane = 2 or t.subscription_id <> (
    select s.subscription_id from relaybox_internal.subscription s where s.subscription = 'billing' and s.ended_at is null
)
"""
QUESTION = "select stream_position, replayed, attempt, sender, payload, token from relaybox.fetch('billing', %s, only_lane => 1, worker => 'w')"


@pytest.fixture(scope="module")
def filled(make_template: Any) -> str:
    """Two streams; the last thirty messages of `flights`, from stream position 31 on, are of three senders."""

    def fill(world: World) -> None:
        fill_two_logs(world)
        deliver(world, 30)

    return make_template(fill)


def crowd(world: World, name: str, lane: int = 1) -> None:
    """Stream positions of a lane are dead letters in every state, and each has failed four times."""
    subscription_id = world.value(
        STORE, "select max(subscription_id) from relaybox_internal.subscription where subscription = %s", name
    )
    with world.session(STORE, autocommit=True) as session, session.cursor() as cursor:
        for rows in (LETTERS, ATTEMPTS):
            cursor.execute(rows, {"id": subscription_id, "lane": lane})


def others_before(world: World) -> None:
    """One of the same name that has ended, one that reads the same, one that reads the other stream."""
    for name, stream in (("billing", "flights"), ("audit", "flights"), ("apart", "other")):
        world.query(STORE, "select relaybox.subscribe(%s, %s, lanes => 2, hold_sender => true)", name, stream)
        world.query(STORE, "select from relaybox.fetch(%s, 10, worker => 'a')", name)
        crowd(world, name)
    world.query(STORE, "select relaybox.unsubscribe('billing', 'an earlier one')")
    world.query(STORE, "delete from relaybox.consumer_action")


def others_after(world: World) -> None:
    """One that came later; and the other lane of the same subscription."""
    world.query(STORE, "select relaybox.subscribe('late', 'flights', lanes => 2, hold_sender => true)")
    crowd(world, "late")
    crowd(world, "billing", lane=2)


def look(world: World) -> list[Any]:
    return [world.query(STORE, one.format(own=OWN)) for one in LOOKS.split(";")]


def dead_letters(world: World) -> dict[int, int]:
    """Stream position -> dead letter id, of the lane."""
    return dict(
        world.query(
            STORE,
            f"select stream_position, dead_letter_id from relaybox_internal.dead_letter where {OWN} and lane = 1 and state = 'open'",
        )
    )


def live(world: World, others: Callable[[World], None]) -> Iterator[Any]:
    """What a worker of the first lane gets, and what is on record of it, step by step."""
    world.query(
        STORE,
        "select relaybox.subscribe('billing', 'flights', '31', lanes => 2, hold_sender => true, nack_limit => 2, crash_limit => 3)",
    )
    others(world)
    yield look(world)

    def fetch(count: int) -> tuple[list[int], str]:
        rows = world.query(STORE, QUESTION, count)
        given.append([row[:-1] for row in rows])
        return [row[0] for row in rows], rows[0][-1] if rows else ""

    def refuse(stream_position: int, token: str) -> bool:
        return bool(world.value(STORE, "select relaybox.nack('billing', %s, 'no', %s)", stream_position, token))

    def done(stream_position: int, token: str) -> None:
        world.value(STORE, "select relaybox.ack('billing', %s, %s)", stream_position, token)

    given: list[Any] = []
    (first, *_, last), token = fetch(6)
    assert not refuse(first, token)
    yield given[-1], look(world)
    (first, *_, last), token = fetch(6)
    assert refuse(first, token)
    yield given[-1], look(world)
    (*_, last), token = fetch(6)
    done(last, token)
    yield given[-1], look(world)
    for _ in range(8):  # it kills its worker until it is alone, and is set aside
        stream_positions, token = fetch(4)
        yield given[-1], look(world)
    if stream_positions:
        done(stream_positions[-1], token)
    waiting = sorted(dead_letters(world))
    yield waiting
    world.query(STORE, "select relaybox.redrive('billing', 'repaired', %s)", dead_letters(world)[waiting[0]])
    yield look(world)
    stream_positions, token = fetch(2)
    yield given[-1], look(world)
    assert not refuse(stream_positions[0], token)
    stream_positions, token = fetch(2)
    refuse(stream_positions[0], token)
    yield given[-1], look(world)
    world.query(STORE, "select relaybox.drop_dead_letter(%s, 'given up')", dead_letters(world)[waiting[0]])
    yield look(world)
    while stream_positions:
        stream_positions, token = fetch(5)
        if stream_positions:
            done(stream_positions[-1], token)
        yield given[-1], look(world)
    yield world.query(
        STORE,
        "select first_stream_position, last_stream_position, message_count, byte_count from relaybox.replay('billing', '35', 'why', dry_run => true)",
    )
    world.query(STORE, "select relaybox.replay('billing', '35', 'again')")
    stream_positions, token = fetch(3)
    refuse(stream_positions[0], token)
    yield given[-1], look(world)


def test_a_lane_lives_the_same_life_beside_others(filled: str, make_world: Any) -> None:
    """Dead letters, attempts and cursors of others at the same stream positions are neither read nor changed."""
    with make_world(filled) as world:
        alone = list(live(world, lambda _: None))
    with make_world(filled) as world:
        others_before(world)
        others: list[Any] = []

        def arrive(world: World) -> None:
            others_after(world)
            others.append(world.value(STORE, OTHERS))

        for step, (expected, found) in enumerate(zip(alone, live(world, arrive), strict=True)):
            assert found == expected, step
            assert world.value(STORE, OTHERS) == others[0], step
