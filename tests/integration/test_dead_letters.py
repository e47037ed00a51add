"""Dead letters of consumers: what was refused too often, or killed its worker, is set aside; the rest flows, or waits behind it."""

from __future__ import annotations

import psycopg2
import pytest

from tests.support.streams import STORE, ack, deliver, fetch, nack, stream_positions, token
from tests.support.world import World


@pytest.fixture
def twelve(world: World) -> World:
    """Twelve messages of the senders s1, s2, s3 in turn; the subscription `billing` allows two refusals and two crashes."""
    deliver(world, 12)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 2, crash_limit => 2)")
    return world


@pytest.fixture
def ordered(twelve: World) -> World:
    """The same, but a sender's later messages wait behind its dead letter."""
    twelve.query(STORE, "select relaybox.unsubscribe('billing')")
    twelve.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1, crash_limit => 2, hold_sender => true)")
    return twelve


def letters(world: World, columns: str = "stream_position, state") -> list[tuple[object, ...]]:
    return world.query(
        STORE, f"select {columns} from relaybox.dead_letters where subscription = 'billing' order by stream_position"
    )


def read_on(world: World, count: int = 100) -> list[int]:
    """Places of all that comes, acknowledged fetch by fetch."""
    got, rows = [], fetch(world, count)
    while rows:
        got += stream_positions(rows)
        rows = fetch(world, count, acked=rows[-1][0])
    return got


def read_all(world: World, subscription: str) -> list[tuple[int, bool]]:
    """Place and `replayed` of all that comes, acknowledged fetch by fetch."""
    got: list[tuple[int, bool]] = []
    while rows := fetch(world, 5, subscription):
        got += [(row[0], row[2]) for row in rows]
        ack(world, rows[-1][0], subscription)
    return got


def test_after_its_limit_a_refused_message_is_set_aside_and_the_rest_flows(twelve: World) -> None:
    """Reason, attempts, first and last time, who; and the message itself."""
    fetch(twelve, 5)
    assert nack(twelve, 3, "no such customer") is False
    assert [(row[0], row[3]) for row in fetch(twelve, 5)] == [(1, 1), (2, 1), (3, 2), (4, 1), (5, 1)]
    assert nack(twelve, 3, "still no such customer") is True
    assert read_on(twelve, 5) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert letters(twelve, "stream_position, state, reason, detail, attempts, first_at < last_at, last_by, payload, sender") == [
        (3, "open", "refused", "still no such customer", 2, True, "a", "m3", "s3")
    ]
    assert twelve.value(STORE, "select count(*) from relaybox_internal.failed_attempt") == 0


def test_a_refused_message_waits_where_the_subscription_says_so(twelve: World) -> None:
    twelve.query(STORE, "update relaybox_internal.subscription set retry_seconds = 3600")
    fetch(twelve, 5)
    nack(twelve, 1)
    assert fetch(twelve, 5) == []
    twelve.query(STORE, "update relaybox_internal.cursor set wait_until = clock_timestamp()")
    assert stream_positions(fetch(twelve, 5)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("size", [1, 5, 12])
def test_a_message_that_kills_its_worker_is_found_and_set_aside(twelve: World, size: int) -> None:
    """A worker that dies at message 4, whatever it has fetched with it: the others are done once, in order."""
    done: list[int] = []
    for _ in range(40):
        for stream_position in stream_positions(fetch(twelve, size)):
            if stream_position == 4:
                break
            done.append(stream_position)
            ack(twelve, stream_position)
    assert done == [1, 2, 3, *range(5, 13)]
    assert letters(twelve, "stream_position, reason, state") == [(4, "killed_its_worker", "open")]


def test_a_batch_that_kills_its_worker_whole_is_cut_until_the_message_is_alone(twelve: World) -> None:
    """A worker that acknowledges only whole fetches and dies on each that has message 7 in it."""
    done: list[int] = []
    sizes: list[int] = []
    for _ in range(40):
        got = stream_positions(fetch(twelve, 12))
        sizes.append(len(got))
        if got and 7 not in got:
            done += got
            ack(twelve, got[-1])
    assert done == [*range(1, 7), *range(8, 13)]
    assert letters(twelve, "stream_position, reason") == [(7, "killed_its_worker")]
    assert sizes[:2] == [12, 12]
    assert 1 in sizes


def test_a_redriven_message_comes_again_and_counts_anew(twelve: World) -> None:
    """With the same limits; then it is settled."""
    fetch(twelve, 5)
    nack(twelve, 3)
    fetch(twelve, 5)
    nack(twelve, 3)
    assert read_on(twelve) == [1, 2, *range(4, 13)]
    assert twelve.value(STORE, "select relaybox.redrive('billing', 'customer made')") == 1
    assert [(row[0], row[2]) for row in fetch(twelve, 5)] == [(3, False)], "it was never acknowledged"
    assert nack(twelve, 3) is False
    assert stream_positions(fetch(twelve, 5)) == [3]
    assert nack(twelve, 3) is True
    assert letters(twelve, "stream_position, state, attempts") == [(3, "open", 4)]
    twelve.query(STORE, "select relaybox.redrive('billing', 'and again')")
    assert stream_positions(fetch(twelve, 5)) == [3]
    ack(twelve, 3)
    assert letters(twelve) == [(3, "redriven")]
    assert fetch(twelve, 5) == []


def redrive_in_lanes(world: World) -> tuple[int, list[int]]:
    """A lane of `billing` and the stream positions of its redriven letters; those of the other lane, of `audit`, and an open one lie before them."""
    world.query(STORE, "select relaybox.unsubscribe('billing')")
    lanes = []
    for subscription in ("audit", "billing"):
        options = "lanes => 2, lane_by => 'key', nack_limit => 1, crash_limit => 2"
        world.query(STORE, f"select relaybox.subscribe(%s, 'flights', {options})", subscription)
        for lane in (1, 2):
            own = stream_positions(fetch(world, 12, subscription, lane=lane))
            lanes.append((own, lane))
            for stream_position in own:
                fetch(world, 12, subscription, lane=lane)
                nack(world, stream_position, subscription=subscription, lane=lane)
    (first, *redriven), lane = max(lanes)
    world.query(STORE, "select relaybox.redrive('audit', 'why')")
    but_first = "from relaybox.dead_letters where subscription = 'billing' and stream_position <> %s"
    world.query(STORE, f"select relaybox.redrive('billing', 'why', dead_letter_id) {but_first}", first)
    return lane, redriven


def test_redriven_dead_letters_that_kill_their_worker_are_set_aside_one_by_one(twelve: World) -> None:
    """A fetch is cut to the first letter of its own lane and subscription."""
    lane, redriven = redrive_in_lanes(twelve)
    for n, first in enumerate(redriven):
        together = redriven[n : n + 2]
        for given in [[first]] * 2 if together == [first] else [together, together, [first], [first]]:
            assert stream_positions(fetch(twelve, 2, lane=lane)) == given
    assert fetch(twelve, 2, lane=lane) == []
    killed = [
        stream_position
        for stream_position, reason, state in letters(twelve, "stream_position, reason, state")
        if reason == "killed_its_worker" and state == "open"
    ]
    assert killed == redriven


def test_redriven_dead_letters_are_acknowledged_in_their_own_lane_only(twelve: World) -> None:
    """Through a stream position, then the rest; neither those of the other lane nor those of another subscription."""
    lane, redriven = redrive_in_lanes(twelve)
    assert stream_positions(fetch(twelve, 12, lane=lane)) == redriven
    done = "select subscription, stream_position from relaybox.dead_letters where state = 'redriven' order by stream_position"
    for acked in (redriven[1], redriven[-1]):
        ack(twelve, acked, lane=lane)
        assert twelve.query(STORE, done) == [
            ("billing", stream_position) for stream_position in redriven if stream_position <= acked
        ]
    of_billing = (
        "join relaybox_internal.subscription s using (subscription_id) where s.subscription = 'billing' and s.ended_at is null"
    )
    leased = f"select c.redrive_stream_position, c.worker from relaybox_internal.lane_cursors c {of_billing} and c.lane = %s"
    assert twelve.query(STORE, leased, lane) == [(None, None)], "nothing of this lane is left"


def test_dead_letters_are_redriven_in_order_before_what_is_new(twelve: World) -> None:
    twelve.query(STORE, "update relaybox_internal.subscription set nack_limit = 1")
    for stream_position in (5, 2, 9):
        fetch(twelve, 12)
        nack(twelve, stream_position)
    assert read_on(twelve) == [1, 3, 4, 6, 7, 8, 10, 11, 12]
    deliver(twelve, 2)
    dead_letter_id = letters(twelve, "dead_letter_id")[1][0]
    assert twelve.value(STORE, "select relaybox.redrive('billing', 'one', %s)", dead_letter_id) == 1
    assert stream_positions(fetch(twelve, 9)) == [5]
    ack(twelve, 5)
    assert twelve.value(STORE, "select relaybox.redrive('billing', 'all')") == 2
    assert read_on(twelve, 1) == [2, 9, 13, 14]


def test_a_dropped_dead_letter_never_comes_again(twelve: World) -> None:
    """Neither by redrive nor by a replay; who dropped it, when and why is in the letter and in the audit."""
    twelve.query(STORE, "update relaybox_internal.subscription set nack_limit = 1")
    fetch(twelve, 12)
    nack(twelve, 2)
    (dead_letter_id,) = letters(twelve, "dead_letter_id")[0]
    twelve.query(STORE, "select relaybox.drop_dead_letter(%s, 'test data')", dead_letter_id)
    assert twelve.value(STORE, "select relaybox.redrive('billing', 'all')") == 0
    assert read_on(twelve) == [1, *range(3, 13)]
    twelve.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert read_on(twelve) == [1, *range(3, 13)]
    user = twelve.value(STORE, "select session_user")
    assert letters(twelve, "state, resolved_reason, resolved_by, resolved_at is not null") == [
        ("dropped", "test data", user, True)
    ]
    assert twelve.query(STORE, "select subscription, reason, done_by from relaybox.consumer_action where action = 'drop'") == [
        ("billing", "test data", user)
    ]


def test_later_messages_of_the_sender_wait_behind_its_dead_letter(ordered: World) -> None:
    """s1 sent 1, 4, 7, 10: 4 is refused, 7 and 10 wait, the others flow; redriven they come in order, before newer ones."""
    assert stream_positions(fetch(ordered, 6)) == [1, 2, 3, 4, 5, 6]
    assert nack(ordered, 4) is True
    assert read_on(ordered, 6) == [1, 2, 3, 5, 6, 8, 9, 11, 12]
    assert letters(ordered, "stream_position, reason, state") == [
        (4, "refused", "open"),
        (7, "waits_behind", "open"),
        (10, "waits_behind", "open"),
    ]
    deliver(ordered, 3)
    assert ordered.value(STORE, "select relaybox.redrive('billing', 'repaired')") == 3
    assert stream_positions(fetch(ordered, 2)) == [4, 7]
    assert stream_positions(fetch(ordered, 2, acked=7)) == [10]
    rows = fetch(ordered, 9, acked=10)
    assert stream_positions(rows) == [13, 14, 15]
    assert letters(ordered) == [(4, "redriven"), (7, "redriven"), (10, "redriven")]


def test_g10_what_waited_ahead_of_the_cursor_and_was_redriven_is_not_given_again(ordered: World) -> None:
    """A fetch looks ahead for messages of held senders: 4, 7 and 10 are redriven before the cursor comes there. A replay gives them again."""
    assert stream_positions(fetch(ordered, 1)) == [1]
    nack(ordered, 1)
    assert stream_positions(fetch(ordered, 1)) == [2]
    ack(ordered, 2)
    assert letters(ordered, "stream_position, state") == [(1, "open"), (4, "open"), (7, "open"), (10, "open")]
    ordered.query(STORE, "select relaybox.redrive('billing', 'repaired')")
    assert read_on(ordered) == [1, 4, 7, 10, 3, 5, 6, 8, 9, 11, 12]
    ordered.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert read_on(ordered) == list(range(1, 13))


def test_g10_dead_letters_redriven_beside_a_fetch_of_others_do_not_count_as_given(ordered: World) -> None:
    """Those of s2 stand among those of s1, which a worker has fetched: its acknowledgement does not count, and all come again."""
    fetch(ordered, 2)
    nack(ordered, 1)
    fetch(ordered, 1)
    nack(ordered, 2)
    read_on(ordered)
    first, second = (
        dead_letter_id for dead_letter_id, reason in letters(ordered, "dead_letter_id, reason") if reason == "refused"
    )
    ordered.query(STORE, "select relaybox.redrive('billing', 'repaired', %s)", first)
    assert stream_positions(fetch(ordered, 10)) == [1, 4, 7, 10]
    verification = token(ordered)
    ordered.query(STORE, "select relaybox.redrive('billing', 'repaired', %s)", second)
    with pytest.raises(psycopg2.Error, match="more dead letters of the lane were redriven or dropped") as refused:
        ordered.query(STORE, "select relaybox.ack('billing', 10, %s)", verification)
    assert refused.value.pgcode == "RB035"
    assert read_on(ordered) == [1, 2, 4, 5, 7, 8, 10, 11]
    assert {state for _, state in letters(ordered)} == {"redriven"}


@pytest.mark.parametrize("cursor", ["billing", "billing.replay"])
def test_g9_one_pass_of_a_replay_gives_each_message_once(ordered: World, cursor: str) -> None:
    """4, 7 and 10 wait behind 1, ahead of the cursor. Redriven, they come before the cursor reaches them: this pass gives them once,
    and the next pass gives them once again."""
    assert read_on(ordered) == list(range(1, 13))
    begin = {
        "billing": "select relaybox.replay('billing', 'earliest', 'again')",
        "billing.replay": "select relaybox_internal.ask_replay('billing', 'billing.replay', '1', '12', 'again', 'pass ' || random())",
    }[cursor]
    for _ in ("the letters are new", "the letters were redriven in the pass before"):
        ordered.query(STORE, begin)
        assert stream_positions(fetch(ordered, 1, cursor)) == [1]
        assert nack(ordered, 1, subscription=cursor) is True
        assert stream_positions(fetch(ordered, 1, cursor)) == [2]
        ack(ordered, 2, cursor)
        assert ordered.value(STORE, "select relaybox.redrive(%s, 'repaired')", cursor) == 4
        assert read_all(ordered, cursor) == [(stream_position, True) for stream_position in (1, 4, 7, 10, 3, 5, 6, 8, 9, 11, 12)]
    ordered.query(STORE, begin)
    assert read_all(ordered, cursor) == [(stream_position, True) for stream_position in range(1, 13)]


def test_g9_a_dead_letter_that_is_redriven_during_a_replay_comes_once(twelve: World) -> None:
    """4 was set aside before the replay and never acknowledged: it comes as the redriven letter, not again as a part of the replay."""
    twelve.query(STORE, "update relaybox_internal.subscription set nack_limit = 1")
    fetch(twelve, 12)
    nack(twelve, 4)
    read_on(twelve)
    twelve.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert stream_positions(fetch(twelve, 2)) == [1, 2]
    ack(twelve, 2)
    twelve.query(STORE, "select relaybox.redrive('billing', 'repaired')")
    assert read_all(twelve, "billing") == [(4, False), *((stream_position, True) for stream_position in (3, *range(5, 13)))]
    twelve.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert read_all(twelve, "billing") == [(stream_position, True) for stream_position in range(1, 13)]


def test_g10_a_replay_neither_repeats_nor_holds_what_was_redriven_ahead_of_the_live_cursor(ordered: World) -> None:
    """16 waited behind 13 and was redriven and acknowledged; the cursor stands at 14. A replay ends at 14: 16 is not in it."""
    read_on(ordered)
    deliver(ordered, 6)
    assert stream_positions(fetch(ordered, 1)) == [13]
    nack(ordered, 13)
    assert stream_positions(fetch(ordered, 1)) == [14]
    ack(ordered, 14)
    ordered.query(STORE, "select relaybox.redrive('billing', 'repaired')")
    assert stream_positions(fetch(ordered, 9)) == [13, 16]
    ack(ordered, 16)
    ordered.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert stream_positions(fetch(ordered, 1)) == [1]
    nack(ordered, 1)
    assert stream_positions(fetch(ordered, 1)) == [2]
    assert letters(ordered) == [*((stream_position, "open") for stream_position in (1, 4, 7, 10, 13)), (16, "redriven")]
    ordered.query(STORE, "select relaybox.redrive('billing', 'repaired')")
    again = [(stream_position, True) for stream_position in (2, 1, 4, 7, 10, 13, 3, 5, 6, 8, 9, 11, 12, 14)]
    assert read_all(ordered, "billing") == [*again, (15, False), (17, False), (18, False)]


@pytest.mark.parametrize("meanwhile", ["turns", "drop"])
def test_g10_an_old_snapshot_can_not_fetch(ordered: World, meanwhile: str) -> None:
    """Neither once the cursors that it would collide with are removed, nor when only a dead letter changed since."""
    deliver(ordered, 120)
    fetch(ordered, 4)
    nack(ordered, 4)
    with ordered.session(STORE) as old, old.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select count(*) from relaybox.subscriptions")
        if meanwhile == "drop":
            ordered.query(STORE, "select relaybox.drop_dead_letter(%s, 'worthless')", letters(ordered, "dead_letter_id")[0][0])
        else:
            for _ in range(55):
                ack(ordered, fetch(ordered, 1)[-1][0])
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("select * from relaybox.fetch('billing', 10, worker => 'old')")


def test_a_redriven_dead_letter_that_fails_again_holds_its_sender_again(ordered: World) -> None:
    fetch(ordered, 12)
    nack(ordered, 4)
    read_on(ordered)
    ordered.query(STORE, "select relaybox.redrive('billing', 'repaired?')")
    assert stream_positions(fetch(ordered, 5)) == [4, 7, 10]
    assert nack(ordered, 4) is True
    assert fetch(ordered, 5) == []
    assert letters(ordered) == [(4, "open"), (7, "open"), (10, "open")]


def test_dropping_a_dead_letter_lets_its_sender_go_on(ordered: World) -> None:
    fetch(ordered, 12)
    nack(ordered, 4)
    read_on(ordered)
    ordered.query(STORE, "select relaybox.drop_dead_letter(%s, 'worthless')", letters(ordered, "dead_letter_id")[0][0])
    assert read_on(ordered) == [7, 10]
    deliver(ordered, 3)
    assert read_on(ordered) == [13, 14, 15]


def test_a_dead_letter_behind_another_one_is_not_redriven_alone(ordered: World) -> None:
    fetch(ordered, 12)
    nack(ordered, 4)
    read_on(ordered)
    with pytest.raises(psycopg2.Error, match="waits behind dead letter") as refused:
        ordered.query(STORE, "select relaybox.redrive('billing', 'why', %s)", letters(ordered, "dead_letter_id")[1][0])
    assert refused.value.pgcode == "RB037"


def test_a_replay_leaves_what_lies_before_a_dead_letter_alone(ordered: World) -> None:
    """s1 sent 1, 4, 7, 10: 7 is a dead letter. A replay reads 1 and 4 again, and 7 and 10 go on waiting."""
    fetch(ordered, 12)
    assert nack(ordered, 7) is True
    assert read_on(ordered) == [1, 2, 3, 4, 5, 6, 8, 9, 11, 12]
    before = letters(ordered)
    assert before == [(7, "open"), (10, "open")]
    ordered.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert read_on(ordered, 3) == [1, 2, 3, 4, 5, 6, 8, 9, 11, 12]
    assert letters(ordered) == before
    (dead_letter_id,) = letters(ordered, "dead_letter_id")[0]
    assert ordered.value(STORE, "select relaybox.redrive('billing', 'repaired', %s)", dead_letter_id) == 2
    assert [(row[0], row[2]) for row in fetch(ordered, 9)] == [(7, False), (10, False)]


def test_what_a_replay_gives_again_waits_behind_a_newer_dead_letter_and_is_known_as_done(ordered: World) -> None:
    """All was done; a replay refuses 4, so that 7 and 10 wait again. Redriven they come in order, marked as replayed."""
    assert read_on(ordered) == list(range(1, 13))
    for _ in ("the letters are new", "the letters were redriven before"):
        ordered.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
        fetch(ordered, 5)
        assert nack(ordered, 4) is True
        assert read_on(ordered, 5) == [1, 2, 3, 5, 6, 8, 9, 11, 12]
        assert letters(ordered) == [(4, "open"), (7, "open"), (10, "open")]
        assert ordered.value(STORE, "select relaybox.redrive('billing', 'repaired')") == 3
        assert [(row[0], row[2]) for row in fetch(ordered, 9)] == [(4, True), (7, True), (10, True)]
        ack(ordered, 10)
        assert letters(ordered) == [(4, "redriven"), (7, "redriven"), (10, "redriven")]


def test_wrong_requests_are_denied(twelve: World) -> None:
    """No such letter, no reason, a letter that is settled."""
    for call, sqlstate in (
        ("redrive('billing', '')", "RB036"),
        ("redrive('billing', 'why', 4711)", "RB037"),
        ("drop_dead_letter(4711, 'why')", "RB037"),
        ("drop_dead_letter(4711, '')", "RB036"),
    ):
        with pytest.raises(psycopg2.Error) as refused:
            twelve.query(STORE, f"select relaybox.{call}")
        assert refused.value.pgcode == sqlstate


def test_a_dead_letter_that_is_not_open_says_what_it_is(twelve: World) -> None:
    """Redriving, redriven, dropped, of another subscription, or not here."""
    twelve.query(STORE, "select relaybox.subscribe('other', 'flights')")
    fetch(twelve, 2)
    while not nack(twelve, 1):
        fetch(twelve, 2)
    (dead_letter_id,) = letters(twelve, "dead_letter_id")[0]

    def refused(call: str) -> str:
        with pytest.raises(psycopg2.Error) as denial:
            twelve.query(STORE, f"select relaybox.{call}")
        assert denial.value.pgcode == "RB037"
        return str(denial.value.diag.message_primary)

    assert refused("drop_dead_letter(99, 'why')") == "there is no dead letter 99 in this store"
    assert refused(f"redrive('other', 'why', {dead_letter_id})") == f"dead letter {dead_letter_id} is of subscription billing"
    twelve.query(STORE, "select relaybox.redrive('billing', 'repaired')")
    for call in (f"drop_dead_letter({dead_letter_id}, 'why')", f"redrive('billing', 'why', {dead_letter_id})"):
        assert refused(call) == f"dead letter {dead_letter_id} is redriving: it waits for its consumer"
    read_on(twelve)
    assert f"dead letter {dead_letter_id} is redriven: its consumer acknowledged it" in refused(
        f"drop_dead_letter({dead_letter_id}, 'why')"
    )


def test_a_dead_letter_of_a_stream_can_be_dropped_and_is_listed(twelve: World) -> None:
    """What a stream could not deliver is in the same list, with no subscription."""
    twelve.query(
        STORE,
        (
            "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason) select stream_id, 1, 5, 'epoch_fenced' "
            "from relaybox_internal.stream"
        ),
    )
    assert twelve.query(STORE, "select stream, subscription, reason, payload, state from relaybox.dead_letters") == [
        ("flights", None, "epoch_fenced", "m5", "open")
    ]
    twelve.query(STORE, "select relaybox.drop_dead_letter(dead_letter_id, 'known') from relaybox.dead_letters")
    assert twelve.query(STORE, "select state from relaybox.dead_letters") == [("dropped",)]


def holders(world: World) -> list[str]:
    """Dead letters that hold the log."""
    return [
        row[0] for row in world.query(STORE, "select holder from relaybox_internal.log_holders(1) where kind = 'dead letter'")
    ]


def test_g8_a_letter_that_is_being_redriven_when_its_subscription_ends_is_open_again(twelve: World) -> None:
    """Nobody would ever acknowledge it, and it could not be dropped: it would hold its log for good."""
    fetch(twelve, 5)
    for _ in range(2):
        nack(twelve, 1)
        fetch(twelve, 5)
    twelve.query(STORE, "select relaybox.redrive('billing', 'repaired')")
    twelve.query(STORE, "select relaybox.unsubscribe('billing', 'replaced')")
    assert letters(twelve) == [(1, "open")]
    ((letter,),) = twelve.query(STORE, "select dead_letter_id from relaybox.dead_letters")
    twelve.query(STORE, "select relaybox.drop_dead_letter(%s, 'nobody wants it')", letter)
    assert (letters(twelve), holders(twelve)) == ([(1, "dropped")], [])


def test_g8_each_letter_of_an_ended_subscription_can_be_dropped(ordered: World) -> None:
    """Those that waited behind a dropped one too; and those that an earlier version left redriving when the subscription ended."""
    fetch(ordered, 5)
    nack(ordered, 1)
    read_on(ordered)
    assert letters(ordered) == [(1, "open"), (4, "open"), (7, "open"), (10, "open")]
    ordered.query(STORE, "select relaybox.unsubscribe('billing', 'replaced')")
    for (letter,) in ordered.query(STORE, "select dead_letter_id from relaybox.dead_letters order by stream_position")[:2]:
        ordered.query(STORE, "select relaybox.drop_dead_letter(%s, 'nobody wants it')", letter)
    assert letters(ordered) == [(1, "dropped"), (4, "dropped"), (7, "open"), (10, "open")]
    ordered.query(STORE, "update relaybox_internal.dead_letter set state = 'redriving' where state = 'open'")
    for (letter,) in ordered.query(STORE, "select dead_letter_id from relaybox.dead_letters where state = 'redriving'"):
        ordered.query(STORE, "select relaybox.drop_dead_letter(%s, 'nobody wants it')", letter)
    assert {state for _, state in letters(ordered)} == {"dropped"}
    assert holders(ordered) == []
