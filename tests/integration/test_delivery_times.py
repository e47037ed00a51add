"""G9: a time stands for one stream position, whatever the store's clock did: intervals that touch share nothing and miss nothing."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pytest
import yaml

from tests.support.senders import declare, send_numbered
from tests.support.world import STORES, World

MIGRATION = Path(__file__).parents[2] / "sql" / "migrations" / "0035_delivery_times.sql"
FIRST_PLACE = "select relaybox_internal.start_stream_position(1, (clock_timestamp() + interval %s)::text)"


def deliver_at(world: World, count: int, seconds: int | None = None) -> None:
    """One batch; with `seconds` the clock is so far ahead while the hub decides on it, and back afterwards."""
    world.send_many(count)
    world.transfer()
    if seconds is not None:
        world.query(
            "hub",
            "update relaybox_internal.decision set decided_at = clock_timestamp() + make_interval(secs => %s)"
            " where batch = (select max(batch) from relaybox_internal.decision)",
            seconds,
        )


def first_stream_positions(world: World, *seconds: int) -> list[int]:
    """The stream position of a start this number of seconds from now."""
    return [world.value("hub", FIRST_PLACE, f"{second} seconds") for second in seconds]


def stream_positions_between(world: World, start: int, end: int) -> tuple[int, int]:
    found = world.query(
        "hub",
        "select first_stream_position, last_stream_position from relaybox_internal.stream_positions_between("
        "1, (clock_timestamp() + make_interval(secs => %s))::text, (clock_timestamp() + make_interval(secs => %s))::text)",
        start,
        end,
    )
    return (int(found[0][0]), int(found[0][1]))


def is_in_order(world: World) -> bool:
    """Whether later decisions of the stream have later times, or the same."""
    times = world.query("hub", "select decided_at from relaybox_internal.decision order by first_arrival_seq")
    return times == sorted(times)


def test_g9_a_clock_that_steps_back_makes_no_start_skip_a_message(world: World) -> None:
    """An hour ahead for one batch, then right again, then later: 31 to 40 were delivered last."""
    deliver_at(world, 10)
    deliver_at(world, 10, 3600)
    deliver_at(world, 10)
    assert is_in_order(world)
    deliver_at(world, 10, 7200)
    assert first_stream_positions(world, -600, 1800, 5400) == [1, 11, 31]
    assert [stream_positions_between(world, *ends) for ends in ((-600, 1800), (1800, 5400))] == [(1, 10), (11, 30)]
    for beyond_the_newest in (lambda: first_stream_positions(world, 9000), lambda: stream_positions_between(world, 5400, 9000)):
        with pytest.raises(psycopg2.Error, match="is in the future"):
            beyond_the_newest()


def test_g9_the_times_of_a_stream_are_those_of_all_its_logs(world: World) -> None:
    """A causal stream of two logs: what came through one is not older than what came before it through the other."""
    routes = {
        name: {"topics": ["chat"], "order": "causal", "stream": "chat", "path": [origin, "hub"]}
        for name, origin in (("chat-a", "airline"), ("chat-b", "analytics"))
    }
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()
    for origin in ("airline", "analytics"):
        world.query(origin, "select relaybox.declare_sender(%s, 'gapless')", origin)
    for name, origin, index, ahead in (
        ("chat-a", "airline", 1, True),
        ("chat-b", "analytics", 1, False),
        ("chat-a", "airline", 2, False),
    ):
        world.query(
            origin,
            "insert into relaybox.outbox (topic, sender, epoch, index, payload) values ('chat', %s, 1, %s, 'm')",
            origin,
            index,
        )
        world.transfer(world.routes.hop(f"{name}/1"))
        if ahead:
            world.query("hub", "update relaybox_internal.decision set decided_at = decided_at + interval '1 hour'")
    assert world.value("hub", "select last_stream_position from relaybox_internal.stream where stream = 'chat'") == 3
    assert is_in_order(world)


def test_g9_what_a_skip_releases_counts_from_its_release(world: World) -> None:
    """Also for the replay window: retention keeps it as long as what was delivered with a batch; and after a compaction."""
    world.change_route(order="fifo", retention={"replay_window_seconds": 1800})
    declare(world, "a")
    send_numbered(world, "a", 1, 3, 4)
    world.transfer()
    world.query("hub", "update relaybox_internal.decision set decided_at = decided_at - interval '1 hour'")
    world.query("hub", "update relaybox_internal.arrival set published_at = published_at - interval '1 hour'")
    assert first_stream_positions(world, -1800) == [2]
    world.query("hub", "select relaybox_internal.skip_gap('flights', 'a', null, 'lost by hand', 'test')")
    assert world.value("hub", "select last_stream_position from relaybox_internal.stream") == 3
    assert first_stream_positions(world, -7200, -1800) == [1, 2]
    assert world.value("hub", "select relaybox_internal.start_stream_position(1, clock_timestamp()::text)") == 4
    window = "select needs_from from relaybox_internal.log_holders(1) where kind = 'window'"
    assert world.value("hub", window) == 2
    send_numbered(world, "a", 5)
    world.transfer()
    assert is_in_order(world)
    world.query(
        "hub",
        "update relaybox_internal.hop_in set first_kept_position = 4; update relaybox_internal.stream set first_kept_stream_position = 4",
    )
    assert world.value("hub", "select relaybox_internal.compact_log_ledgers(1)") == 1
    assert world.value("hub", "select count(*) from relaybox_internal.late_delivery") == 0
    assert world.value(
        "hub", "select compacted_decided_at > clock_timestamp() - interval '30 minutes' from relaybox_internal.stream_log"
    )


def test_times_that_went_back_before_they_could_not_are_corrected(world: World) -> None:
    """The migration: each decision has the newest time of those before it in its stream."""
    for _ in range(3):
        deliver_at(world, 10)
    for batch, seconds in ((1, 0), (2, 3600), (3, 1800)):
        world.query(
            "hub",
            (
                "update relaybox_internal.decision set decided_at = timestamptz '2026-07-01 12:00+00' + make_interval(secs => %s) "
                "where batch = %s"
            ),
            seconds,
            batch,
        )
    statements = MIGRATION.read_text()
    world.query(
        "hub",
        statements[statements.index("update relaybox.decision") :]
        .replace("relaybox.", "relaybox_internal.")
        .replace("hop_id", "log_id")
        .replace("first_taken", "first_arrival_seq"),
    )
    seconds = (
        "select extract(epoch from decided_at - '2026-07-01 12:00+00')::integer from relaybox_internal.decision order by batch"
    )
    assert world.query("hub", seconds) == [(0,), (3600,), (3600,)]
