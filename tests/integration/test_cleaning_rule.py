"""The cleaning rule against brute force: any subscriptions, lanes, dead letters, replays and hops, in any order of doing (A3.23 to A3.25)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.world import World, routes_file

STORE, LOG, STREAM, NEXT_HOP = "hub", 1, "flights", "flights/2"
SEGMENT_ROWS = 5
NAMES = ("a", "b", "c")

EMPTY = """
delete from relaybox_internal.cursor; delete from relaybox_internal.failed_attempt; delete from relaybox_internal.dead_letter; delete
    from relaybox_internal.lane;
delete from relaybox.consumer_action; delete from relaybox_internal.subscription; delete from relaybox_internal.delivery; delete
    from relaybox_internal.decision;
delete from relaybox_internal.arrival; delete from relaybox_internal.confirmation; delete from relaybox_internal.batch; delete
    from relaybox_internal.dropped_segment;
update relaybox_internal.hop_in set published_batch = 0, published_position = 0, first_kept_position = 1;
update relaybox_internal.stream set last_stream_position = 0, first_kept_stream_position = 1, dropped_stream_position = 0;
update relaybox_internal.stream_log set decided_batch = 0, decided_position = 0;
do $$ declare s record; begin
    for s in select segment from relaybox_internal.segments() where log_id = 1 loop execute format('drop table %s', s.segment); end loop;
end $$;
select relaybox_internal.ensure_log_segments(1, 0);
"""

WRITE = """
insert into relaybox_internal.log (log_id, epoch, log_position, index, message_id, sent_at, topic, sender, key, payload)
select 1, 0, p, p, gen_random_uuid(), now(), 'flights', 's' || p %% 4, null, 'm' || p from generate_series(%(first)s, %(last)s) p;
insert into relaybox_internal.arrival (log_id, batch, plan_id, first_position, last_position, row_count, slice_count,
source_system_identifier, source_timeline)
values (1, %(batch)s, gen_random_uuid(), %(first)s, %(last)s, %(last)s - %(first)s + 1, 1, 1, 1);
insert into relaybox_internal.decision (
    log_id, batch, first_arrival_seq, row_count, duplicate_count, set_aside_count, delivered_count, held_after, last_stream_position, in_order
) values (1, %(batch)s, 1, 1, 0, 0, 1, 0, %(last)s, true);
insert into relaybox_internal.delivery (stream_id, first_stream_position, last_stream_position, log_id, first_position, log_positions)
select stream_id, %(first)s, %(last)s, 1, %(first)s, %(log_positions)s::bigint[] from relaybox_internal.stream;
update relaybox_internal.stream set last_stream_position = %(last)s;
update relaybox_internal.hop_in set published_batch = %(batch)s, published_position = %(last)s;
update relaybox_internal.stream_log set decided_batch = %(batch)s, decided_position = %(last)s;
"""

SETTLE = """
insert into relaybox_internal.batch (
    hop, batch, pair_exhausted, reads_after, reads_through, first_position, last_position, row_count, slices, system_identifier, timeline, next_xid
) values ('flights/2', %(batch)s, true, %(after)s, %(through)s, %(after)s + 1, %(through)s, %(through)s - %(after)s, '[[1, 1, 1, 1, 1]]', 1, 1, '3');
insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
values ('flights/2', 'settled', %(through)s, %(batch)s, now(), 'test');
"""


@dataclass
class Expected:
    """What the rule is about, kept by hand: stream positions and positions as plain lists and sets."""

    log_positions: list[int] = field(default_factory=list)  # by stream position, from stream position 1 on
    unread: dict[str, set[int]] = field(default_factory=dict)  # by subscription: stream positions that are not done
    dead_letters: dict[int, tuple[str, int]] = field(default_factory=dict)  # open dead letters: whose, at which position
    settled: int = 0
    batches: int = 0
    settlings: int = 0

    def needed(self) -> set[int]:
        """Positions that a reader needs, one by one."""
        last = len(self.log_positions)
        newest = {p for p in self.log_positions if p // SEGMENT_ROWS == last // SEGMENT_ROWS} | set(self.log_positions[-1:])
        unread = {
            self.log_positions[stream_position - 1]
            for stream_positions in self.unread.values()
            for stream_position in stream_positions
        }
        return newest | unread | {at for _, at in self.dead_letters.values()} | set(range(self.settled + 1, last + 1))


class Store:
    """One store, driven by hand; each action is done to it and to what is expected of it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.expected = Expected()

    def run(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return list(cursor.fetchall()) if cursor.description else []

    def begin(self) -> None:
        self.run(EMPTY)
        self.expected = Expected()

    def deliver(self, count: int, *, backwards: bool) -> None:
        e = self.expected
        first, last = len(e.log_positions) + 1, len(e.log_positions) + count
        log_positions = list(range(first, last + 1))[:: -1 if backwards else 1]
        e.batches += 1
        e.log_positions += log_positions
        for stream_positions in e.unread.values():
            stream_positions.update(range(first, last + 1))
        self.run("select relaybox_internal.ensure_log_segments(1, %s)", last)
        with self.connection.cursor() as cursor:
            cursor.execute(
                WRITE, {"first": first, "last": last, "batch": e.batches, "log_positions": log_positions if backwards else None}
            )

    def settle(self, count: int) -> None:
        e = self.expected
        through = min(len(e.log_positions), e.settled + count)
        if through == e.settled:
            return
        e.settlings += 1
        with self.connection.cursor() as cursor:
            cursor.execute(SETTLE, {"batch": e.settlings, "after": e.settled, "through": through})
        e.settled = through

    def subscribe(self, name: str, lanes: int, start: str) -> None:
        e = self.expected
        if name in e.unread:
            return
        ((first,),) = self.run("select relaybox.subscribe(%s, 'flights', %s, lanes => %s, nack_limit => 1)", name, start, lanes)
        e.unread[name] = set(range(first, len(e.log_positions) + 1))

    def consume(self, name: str, count: int, *, refuse: bool) -> None:
        """Fetches, and acknowledges all of it, or refuses the first one."""
        e = self.expected
        if name not in e.unread:
            return
        got = self.run(
            "select stream_position, token, log_position from relaybox.fetch(%s, %s, worker => 'w') order by stream_position",
            name,
            count,
        )
        if not got:
            # a lane with nothing new has looked at all there is
            return
        stream_position, token, log_position = got[0]
        if refuse and stream_position in e.unread[name]:
            self.run("select relaybox.nack(%s, %s, 'no', %s)", name, stream_position, token)
            ((dead_letter_id,),) = self.run(
                "select dead_letter_id from relaybox.dead_letters where subscription = %s and stream_position = %s and state = 'open'",
                name,
                stream_position,
            )
            e.dead_letters[dead_letter_id] = (name, log_position)
            e.unread[name].discard(stream_position)
        else:
            self.run("select relaybox.ack(%s, %s, %s)", name, got[-1][0], token)
            e.unread[name] -= {one[0] for one in got}

    def drop_letter(self) -> None:
        for dead_letter_id in list(self.expected.dead_letters)[:1]:
            self.run("select relaybox.drop_dead_letter(%s, 'test')", dead_letter_id)
            del self.expected.dead_letters[dead_letter_id]

    def unsubscribe(self, name: str) -> None:
        if self.expected.unread.pop(name, None) is not None:
            self.run("select relaybox.unsubscribe(%s)", name)

    def replay(self, name: str) -> None:
        """Back to the beginning of what is kept; a dead letter stays one."""
        e = self.expected
        if name not in e.unread or not e.log_positions:
            return
        ((highest,),) = self.run("select max(done_stream_position) from relaybox.lag(%s)", name)
        ((kept,),) = self.run("select first_kept_stream_position from relaybox_internal.stream")
        if highest < kept:
            return  # nothing to replay
        ((first,),) = self.run("select first_stream_position from relaybox.replay(%s, 'earliest', 'test')", name)
        aside = {
            stream_position
            for stream_position, log_position in enumerate(e.log_positions, 1)
            if (name, log_position) in self.all_dead_letters()
        }
        e.unread[name] |= set(range(first, len(e.log_positions) + 1)) - aside

    def all_dead_letters(self) -> set[tuple[str, int]]:
        """Also those that were dropped: they are not read again."""
        return set(self.run("select subscription, log_position from relaybox.dead_letters where subscription is not null"))  # type: ignore[arg-type]

    def retain(self) -> None:
        """Safe: what is needed is there. Complete: of the oldest segment something is needed. Told: what is kept from."""
        needed = self.expected.needed()
        while self.run("select outcome from relaybox_internal.drop_oldest_segment(1, 'test')") == [("dropped",)]:
            pass
        there = {row[0] for row in self.run("select log_position from relaybox_internal.log")}
        assert needed <= there
        last = len(self.expected.log_positions)
        if last:
            oldest = min(row[0] for row in self.run("select first from relaybox_internal.segments() where log_id = 1"))
            lanes_stand = self.lowest_done()
            assert any(p < oldest + SEGMENT_ROWS for p in needed | lanes_stand)
            assert there == {p for p in range(1, last + 1) if p >= oldest}
            ((first_stream_position, first_position),) = self.run(
                "select first_kept_stream_position, first_kept_position from relaybox_internal.stream, relaybox_internal.hop_in "
                "where log_id = 1"
            )
            gone = {p for p in range(1, last + 1) if p < oldest}
            assert first_position == max(1, oldest)
            assert (
                first_stream_position
                == max(
                    (stream_position for stream_position, p in enumerate(self.expected.log_positions, 1) if p in gone), default=0
                )
                + 1
            )

    def lowest_done(self) -> set[int]:
        """Positions beyond where some lane stands: it has not looked at them yet, and may find that they are another lane's."""
        stand = self.run(
            """
            select min(k.done_stream_position) from relaybox_internal.lane l join lateral (
                select c.done_stream_position from relaybox_internal.cursor c where c.subscription_id = l.subscription_id
                    and c.lane = l.lane
                order by c.version desc limit 1
            ) k on true
            """
        )[0][0]
        return set() if stand is None else set(self.expected.log_positions[stand:])


@pytest.fixture
def store(databases: Mapping[str, Mapping[str, str]], tmp_path: Path) -> Any:
    world = World(routes_file(tmp_path, route={"retention": {"replay_window_seconds": 0}}))
    world.initialise(segment_rows=SEGMENT_ROWS)
    with closing(psycopg2.connect(service=STORE)) as connection:
        connection.autocommit = True
        yield Store(connection)


names = st.sampled_from(NAMES)
actions: st.SearchStrategy[Callable[[Store], None]] = st.one_of(
    st.builds(lambda n, b: lambda s: s.deliver(n, backwards=b), st.integers(1, 12), st.booleans()),
    st.builds(lambda n: lambda s: s.settle(n), st.integers(1, 20)),
    st.builds(
        lambda n, k, at: lambda s: s.subscribe(n, k, at), names, st.integers(1, 3), st.sampled_from(["earliest", "latest"])
    ),
    st.builds(lambda n, c, r: lambda s: s.consume(n, c, refuse=r), names, st.integers(1, 15), st.booleans()),
    st.just(Store.drop_letter),
    st.builds(lambda n: lambda s: s.unsubscribe(n), names),
    st.builds(lambda n: lambda s: s.replay(n), names),
    st.just(Store.retain),
)


WITH_A_SLOW_ONE: list[Callable[[Store], None]] = [
    lambda s: s.settle(12),
    lambda s: s.subscribe("a", 1, "earliest"),
    lambda s: s.subscribe("b", 2, "earliest"),
    lambda s: s.consume("a", 10, refuse=False),
    Store.retain,
]

WITH_A_DEAD_LETTER: list[Callable[[Store], None]] = [
    lambda s: s.settle(12),
    lambda s: s.subscribe("a", 1, "earliest"),
    lambda s: s.consume("a", 1, refuse=True),
    lambda s: s.consume("a", 15, refuse=False),
    Store.retain,
    Store.drop_letter,
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(history=st.lists(actions, min_size=5, max_size=30))
@example(history=WITH_A_DEAD_LETTER)
@example(history=WITH_A_SLOW_ONE)
def test_g8_segments_go_when_and_only_when_nobody_needs_a_row_of_them(store: Any, history: list[Callable[[Store], None]]) -> None:
    store.begin()
    store.deliver(12, backwards=False)
    for action in history:
        action(store)
    store.retain()
