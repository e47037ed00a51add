"""G9: ranges that a second cursor reads one after the other, by times of delivery: what a backfill does."""

from __future__ import annotations

import pytest

from relaybox import errors
from relaybox.subscriptions.replays import (
    OpenRange,
    ReplayRequest,
    advance_replay,
    ask_replay,
    read_open_ranges,
    read_progress,
    second_cursor,
)
from relaybox.subscriptions.subscriptions import cancel_replay
from tests.support.streams import STORE, ack, deliver, fetch, stream_positions
from tests.support.world import World

CURSOR = "billing.replay"


@pytest.fixture
def days(world: World) -> World:
    """Three days, 1 to 3 July, of 4, 5 and 6 messages; all but the last 2 acknowledged by `billing`."""
    for day, count in ((1, 4), (2, 5), (3, 6)):
        deliver(world, count, backwards=day == 2)
        world.query(
            STORE,
            "update relaybox_internal.decision set decided_at = %s where batch = (select max(batch) from relaybox_internal.decision)",
            noon(day),
        )
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    fetch(world, 13)
    ack(world, 13)
    return world


def noon(day: int) -> str:
    return f"2026-07-{day:02} 12:00+00"


def order(first_day: int, last_day: int | None = None, *, asked_by: str = "run 1") -> ReplayRequest:
    """Whole days, the last one included."""
    start, through = (f"2026-07-{day:02}T00:00:00+00:00" for day in (first_day, 1 + (last_day or first_day)))
    return ReplayRequest("billing", start, through, "tax audit", CURSOR, asked_by)


def ask(world: World, wanted: ReplayRequest) -> tuple[str, int | None]:
    asked = ask_replay(world.routes.store(STORE), wanted)
    return asked.state, asked.replay


def read_all(world: World, subscription: str = CURSOR) -> list[int]:
    """Stream positions of all that is there, acknowledged, each marked as a replay."""
    got, rows = [], fetch(world, 4, subscription)
    while rows:
        assert all(row[2] for row in rows)
        got += stream_positions(rows)
        rows = fetch(world, 4, subscription, acked=rows[-1][0])
    return got


def test_g9_intervals_that_touch_share_no_message_and_miss_none(days: World) -> None:
    """One cursor, one range after the other, in any order; the live one goes on where it was."""
    assert second_cursor("billing") == CURSOR
    read = {}
    for day in (2, 1, 3):
        assert ask(days, order(day, asked_by=f"run {day}"))[0] == "begun"
        read[day] = read_all(days)
    assert read == {1: [1, 2, 3, 4], 2: [5, 6, 7, 8, 9], 3: [10, 11, 12, 13, 14, 15]}
    assert stream_positions(fetch(days, 9)) == [14, 15]


def test_g9_a_range_waits_for_the_one_before_it(days: World) -> None:
    """It says for which; nothing of both is mixed, also when they overlap."""
    ask(days, order(1, 2))
    rows = fetch(days, 3, CURSOR)
    waits = ask_replay(days.routes.store(STORE), order(2, 3, asked_by="run 2"))
    assert (waits.state, waits.waits_for) == ("waits", "stream positions 1 to 9, asked for by run 1, done through 0")
    assert [*stream_positions(rows), *read_all(days)[3:]] == list(range(1, 10))
    assert ask(days, order(2, 3, asked_by="run 2"))[0] == "begun"
    assert read_all(days) == list(range(5, 16))


def test_g9_who_asks_for_what_is_being_read_joins_and_nothing_is_read_twice(days: World) -> None:
    """Two runs at once, or a retry: one reading serves all who asked. A cleared run is another asker, and has it read again."""
    begun, replay = ask(days, order(2))
    assert begun == "begun"
    assert ask(days, order(2)) == ask(days, order(2, asked_by="run 2")) == ("joined", replay)
    assert read_all(days) == [5, 6, 7, 8, 9]
    assert ask(days, order(2)) == ask(days, order(2, asked_by="run 2")) == ("done", replay)
    assert read_all(days) == []
    assert ask(days, order(2, asked_by="run 1, cleared"))[0] == "begun"
    assert read_all(days) == [5, 6, 7, 8, 9]


def test_g9_a_cancelled_replay_is_said_to_be_and_can_begin_anew(days: World) -> None:
    store = days.routes.store(STORE)
    _, replay = ask(days, order(2))
    assert replay is not None
    step = advance_replay(store, order(2))
    assert (step.state, step.replay, step.is_open) == ("reads", replay, True)
    cancel_replay(store, CURSOR, reason="wrong day")
    with pytest.raises(errors.RequestRefused, match=r"billing\.replay was cancelled at stream position 4 of 9"):
        advance_replay(store, order(2), step.replay)
    assert read_progress(store, replay).is_cancelled
    step = advance_replay(store, order(1, asked_by="run 2"))
    read_all(days)
    step = advance_replay(store, order(1, asked_by="run 2"), step.replay)
    assert step.progress is not None
    assert (step.state, step.progress.done_stream_position) == ("done", 4)


def test_g9_a_request_that_waits_names_the_range_before_it(days: World) -> None:
    """The number is what the triggerer waits for: the open ranges of the store say when that range is read."""
    store = days.routes.store(STORE)
    first = advance_replay(store, order(1))
    waiting = advance_replay(store, order(2, asked_by="run 2"))
    assert (waiting.state, waiting.replay) == ("waits", first.replay)
    assert open_ranges(days) == {CURSOR: OpenRange(first.replay or 0, 0)}
    ack(days, fetch(days, 2, CURSOR)[-1][0], CURSOR)
    assert open_ranges(days) == {CURSOR: OpenRange(first.replay or 0, 2)}
    read_all(days)
    assert open_ranges(days) == {}
    second = advance_replay(store, order(2, asked_by="run 2"))
    assert (second.state, open_ranges(days)) == ("reads", {CURSOR: OpenRange(second.replay or 0, 4)})
    cancel_replay(store, CURSOR, reason="wrong day")
    assert open_ranges(days) == {}


def open_ranges(world: World) -> dict[str, OpenRange]:
    with world.session(STORE) as session, session.cursor() as cursor:
        return read_open_ranges(cursor)


def test_g9_nonsense_is_refused_and_an_empty_day_is_no_error(days: World) -> None:
    """And nothing is left of any of them."""
    assert ask(days, order(9)) == ("empty", None)
    future = ReplayRequest("billing", "2026-07-01", "2999-01-01", "why", CURSOR, "run")
    for wrong, said in (
        (future, "2999-01-01 is in the future"),
        (ReplayRequest("billing", "1", "3", " ", CURSOR, "run"), "with a reason"),
        (ReplayRequest("billing", "1", "3", "why", "billing", "run"), "exists, and is no second cursor of billing"),
        (ReplayRequest("billing", "1", "yesterdayish", "why", CURSOR, "run"), "is no start"),
    ):
        with pytest.raises(errors.RequestRefused, match=said):
            ask(days, wrong)
    assert days.value(STORE, "select count(*) from relaybox_internal.replay_range") == 0


def test_a_replay_is_written_down_with_who_it_was_for(days: World) -> None:
    ask_replay(days.routes.store(STORE), ReplayRequest("billing", "2", "4", "tax audit", CURSOR, "dag run", on_behalf_of="ada"))
    query = "select reason, detail ->> 'on_behalf_of', detail ->> 'asked_by', detail ->> 'last_stream_position' from relaybox.consumer_action"
    assert days.query(STORE, f"{query} where action = 'replay'") == [("tax audit", "ada", "dag run", "4")]
