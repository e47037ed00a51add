"""Messages that expire: no fetch returns them; each is a dead letter once, which people find, count, redrive or drop."""

from __future__ import annotations

import psycopg2
import pytest

from tests.support.streams import ack, fetch, stream_positions
from tests.support.world import World

STORE = "hub"
PAST, FUTURE = -60.0, 86400.0


def send(world: World, *expiries: float | None, sender: str = "UA") -> None:
    """Sends a message for each number of seconds from now in which it expires; None: it never does. Moves them to the hub."""
    for expiry in expiries:
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', %s, 'm',"
            " case when %s is not null then jsonb_build_object("
            "'relaybox-expires-at', extract(epoch from clock_timestamp()) + %s) end)",
            sender,
            expiry,
            expiry,
        )
    world.transfer(world.first_hop)


def subscribe(world: World, options: str = "") -> None:
    world.query(STORE, f"select relaybox.subscribe('billing', 'flights'{options})")


def let_expire(world: World, stream_position: int) -> None:
    """As if the time had come: a real wait would race with the fetch before it."""
    world.query(
        STORE,
        "update relaybox_internal.log set headers = jsonb_build_object('relaybox-expires-at', 1) where log_position = %s",
        stream_position,
    )


def letters(world: World) -> list[tuple[object, ...]]:
    return world.query(
        STORE,
        "select stream_position, reason, state, attempts from relaybox.dead_letters"
        " where subscription = 'billing' order by stream_position",
    )


@pytest.mark.parametrize("options", ["", ", lanes => 2", ", hold_sender => true"], ids=["one lane", "two lanes", "hold_sender"])
def test_no_fetch_returns_an_expired_message_and_each_is_a_dead_letter_once(world: World, options: str) -> None:
    """Also the first of a stream, the last, and several in a row; nothing changes when it is fetched again and again."""
    subscribe(world, options)
    send(world, PAST, None, PAST, PAST, FUTURE, None, PAST, sender="early")
    send(world, None, PAST, sender="late")
    got: list[int] = []
    while rows := fetch(world, 3):
        got += stream_positions(rows)
        assert stream_positions(fetch(world, 3)) == stream_positions(rows), "not acknowledged: the same again"
        world.query(STORE, "select relaybox.ack('billing', %s, %s)", rows[-1][0], _token(world, rows[-1][1]))
    expired = [position for position, reason, *_ in letters(world) if reason == "expired"]
    behind = [position for position, reason, *_ in letters(world) if reason == "waits_behind"]
    if "hold_sender" in options:
        assert (got, expired[0], behind) == ([8], 1, [2, 3, 4, 5, 6, 7])
    else:
        assert (sorted(got), expired, behind) == ([2, 5, 6, 8], [1, 3, 4, 7, 9], [])
    assert not fetch(world, 10)


def _token(world: World, lane: int) -> str:
    return str(
        world.value(
            STORE,
            "select k.token from relaybox_internal.lane_cursors k join relaybox_internal.subscription s using (subscription_id)"
            " where s.subscription = 'billing' and k.lane = %s",
            lane,
        )
    )


def test_a_message_that_expires_while_its_worker_has_it_does_not_come_again(world: World) -> None:
    """It is set aside when it would be fetched again; the fetch that returned it may still acknowledge."""
    subscribe(world)
    send(world, None, FUTURE, None)
    assert stream_positions(fetch(world, 10)) == [1, 2, 3]
    let_expire(world, 2)
    assert stream_positions(fetch(world, 10)) == [1, 3]
    assert [row[:3] for row in letters(world)] == [(2, "expired", "open")]
    ack(world, 3)
    assert not fetch(world, 10)


def test_a_rolled_back_fetch_counts_no_expired_message(world: World) -> None:
    """The dead letter commits with the fetch; the next fetch makes it."""
    subscribe(world)
    send(world, PAST, None)
    with world.session(STORE) as session:
        session.cursor().execute("select * from relaybox.fetch('billing', 10)")
        session.rollback()
    assert letters(world) == []
    assert stream_positions(fetch(world, 10)) == [2]
    assert letters(world) == [(1, "expired", "open", 0)]


def test_an_expired_message_is_redriven_or_dropped(world: World) -> None:
    """A redrive is an order: the message comes although it is expired, and is not set aside again."""
    subscribe(world)
    send(world, PAST, PAST, None)
    assert stream_positions(fetch(world, 10)) == [3]
    ack(world, 3)
    first, second = world.query(STORE, "select dead_letter_id from relaybox.dead_letters order by stream_position")
    world.query(STORE, "select relaybox.redrive('billing', 'wanted all the same', %s)", first[0])
    world.query(STORE, "select relaybox.drop_dead_letter(%s, 'too late')", second[0])
    assert [(row[0], row[3]) for row in fetch(world, 10)] == [(1, 1)]
    assert [(row[0], row[3]) for row in fetch(world, 10)] == [(1, 2)]
    ack(world, 1)
    assert [row[:3] for row in letters(world)] == [(1, "expired", "redriven"), (2, "expired", "dropped")]


def test_a_cursor_over_what_was_set_aside_and_redriven_is_no_defect(world: World) -> None:
    """The cursor passes messages that no fetch returned; afterwards they are redriven, and verification still knows them."""
    subscribe(world, ", hold_sender => true")
    send(world, None)
    assert stream_positions(fetch(world, 10)) == [1]
    ack(world, 1)
    send(world, PAST)
    assert not fetch(world, 10)
    send(world, None, None)
    assert not fetch(world, 10)
    assert [row[:2] for row in letters(world)] == [(2, "expired"), (3, "waits_behind"), (4, "waits_behind")]
    world.query(STORE, "select relaybox.redrive('billing', 'wanted all the same')")
    assert stream_positions(fetch(world, 10)) == [2, 3, 4]
    ack(world, 4)
    assert world.query(STORE, "select example from relaybox_internal.find_wrong_cursors('flights')") == []
    send(world, None)
    assert stream_positions(fetch(world, 10)) == [5]
    world.query(
        STORE,
        "update relaybox_internal.cursor set done_stream_position = 5, fetched_stream_position = 5"
        " where version = (select max(version) from relaybox_internal.cursor where fetched_stream_position < 5)",
    )
    assert len(world.query(STORE, "select example from relaybox_internal.find_wrong_cursors('flights')")) == 1


def test_a_storm_of_expired_messages_is_set_aside_in_several_fetches(world: World) -> None:
    """A fetch that sets aside for five seconds ends without a row: what it did is committed, and the next one goes on."""
    subscribe(world)
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, payload, headers) select 'flights', 'UA', 'm',"
        " case when n <= 100 then jsonb_build_object('relaybox-expires-at', 1) end from generate_series(1, 101) n",
    )
    world.transfer(world.first_hop)
    world.query(
        STORE,
        "create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.1); return new; end $$;"
        "create trigger slow before insert on relaybox_internal.dead_letter for each row execute function public.slow()",
    )
    assert not fetch(world, 10)
    set_aside = len(letters(world))
    assert 10 <= set_aside < 100
    assert world.value(STORE, "select relaybox.rest_seconds('billing')") == 1
    world.query(STORE, "drop trigger slow on relaybox_internal.dead_letter")
    assert stream_positions(fetch(world, 10)) == [101]
    assert [row[:3] for row in letters(world)] == [(n, "expired", "open") for n in range(1, 101)]


def test_a_replay_reads_expired_messages_as_history(world: World) -> None:
    """What was acknowledged before it expired comes again; a second cursor does not look at expiry."""
    subscribe(world)
    send(world, FUTURE, None)
    taken = stream_positions(fetch(world, 10))
    assert taken == [1, 2]
    ack(world, 2)
    let_expire(world, 1)
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'compare', through => '2', second_cursor => true)")
    assert stream_positions(fetch(world, 10, "billing.replay-1")) == taken
    world.query(STORE, "select * from relaybox.replay('billing', '1', 'again')")
    assert stream_positions(fetch(world, 10)) == taken


def test_hops_and_read_stream_carry_expired_messages(world: World) -> None:
    """The next store gets the message and decides by its own clock; reading without a subscription returns it."""
    send(world, PAST, None)
    assert world.transfer_all() is None
    for store in (STORE, "analytics"):
        assert world.query(store, "select stream_position from relaybox.read_stream('flights')") == [(1,), (2,)]
        assert world.value(store, "select has_expiry from relaybox_internal.stream")


def test_a_stream_without_expiring_messages_stays_in_the_usual_fetch(world: World) -> None:
    """Other headers do not count, nor do values of the header that only an earlier version's outbox took."""
    send(world, None)
    for value in ('{"traceparent": "00-1"}', "{}"):
        world.query(
            "airline", "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', 'm', %s)", value
        )
    world.transfer(world.first_hop)
    assert world.value(STORE, "select not has_expiry from relaybox_internal.stream")
    for value in ('{"relaybox-expires-at": "soon"}', '{"relaybox-expires-at": 1e300}', '{"relaybox-expires-at": null}'):
        assert world.value(STORE, "select relaybox_internal.expires_at(%s::jsonb)", value) is None


@pytest.mark.parametrize("value", ['"2027-01-01T00:00:00Z"', "null", "-1", "1e12", "[1]", "{}"])
def test_the_outbox_refuses_an_expiry_that_is_no_time(world: World, value: str) -> None:
    """With the name of the rule, as it refuses every other message."""
    with pytest.raises(psycopg2.errors.CheckViolation, match="expires_at_is_seconds_since_1970"):
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', 'm', %s)",
            f'{{"relaybox-expires-at": {value}}}',
        )


@pytest.mark.parametrize("with_index", [False, True], ids=["no index", "own indexes"])
@pytest.mark.parametrize("expiring", [None, 1, 25_000], ids=["none expires", "the first expires", "the last expires"])
def test_the_count_of_a_batch_looks_for_expiry_so_that_its_decision_does_not(
    world: World, with_index: bool, expiring: int | None
) -> None:
    """The session that counted a batch without expiry notes it; a batch with one is never noted."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, index, payload, headers)"
        " select 'flights', 'UA', case when %s then n end, 'm', case when n = %s then '{\"relaybox-expires-at\": 9e9}'::jsonb end"
        " from generate_series(1, 25000) n",
        with_index,
        expiring,
    )
    world.transfer(world.first_hop)
    assert world.value(STORE, "select has_expiry from relaybox_internal.stream") == (expiring is not None)
    with world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute("select relaybox_internal.count_batch_rows(h, 1, 1, 25000) from relaybox_internal.hop_in h")
        cursor.execute("select current_setting('relaybox.without_expiry', true)")
        (noted,) = cursor.fetchone()
    assert (noted or "") == ("1 1 25000" if expiring is None else "")
