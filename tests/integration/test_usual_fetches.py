"""The usual case of a fetch, which fetch() decides itself, gives what the whole way gives: rows, cursor and errors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest

from tests.support.streams import STORE, deliver
from tests.support.world import World

FETCHES = {
    "usual": "select * from relaybox.fetch('usual', %s, %s, %s, %s, %s)",
    "whole": "select * from relaybox_internal.fetch_any_lane('whole', %s, %s, %s, %s, %s)",
}
"""The same call: of a subscription that may take the usual case, and of its twin, which never does."""

SUBSCRIBED = (
    "",
    ", nack_limit => 1",
    ", nack_limit => 2, retry_seconds => 30",
    ", crash_limit => 2",
    ", hold_sender => true, nack_limit => 1",
)
CURSOR = """
select
    c.lane, c.version, c.done_stream_position, c.fetched_stream_position, c.redrive_stream_position, c.fetch_count,
    c.suspect_stream_position, c.suspect_rows, c.worker, c.leased_until is null, c.wait_until is null, c.replay_stream_position,
    c.token is null, c.fetched_in is null, c.first_fetched_at is null,
    (select count(*) from relaybox_internal.cursor older where older.subscription_id = c.subscription_id),
    (
        select array_agg(row(d.stream_position, d.state, d.given_ahead)::text order by d.stream_position)
        from relaybox_internal.dead_letter d where d.subscription_id = s.subscription_id
    ),
    (
        select array_agg(row(f.stream_position, f.attempts)::text order by f.stream_position)
        from relaybox_internal.failed_attempt f where f.subscription_id = s.subscription_id
    )
from relaybox_internal.lane_cursors c
join relaybox_internal.subscription s using (subscription_id)
where s.subscription = 'TWIN' and s.ended_at is null
"""
NEWEST_TOKEN = """
select c.token from relaybox_internal.lane_cursors c join relaybox_internal.subscription s using (subscription_id)
where s.subscription = 'TWIN' and s.ended_at is null
"""
TIME_PASSES = """
update relaybox_internal.cursor set
    leased_until = leased_until - interval '2 minutes', wait_until = wait_until - interval '2 minutes'
"""


@dataclass
class Twin:
    """One of the two subscriptions: what it fetched last."""

    session: Any
    subscription: str
    token: str | None = None

    def call(self, statement: str, *arguments: object) -> Any:
        """Rows of a statement in which TWIN is this subscription's name, or the SQLSTATE of its error."""
        with self.session.cursor() as cursor:
            try:
                cursor.execute(statement.replace("TWIN", self.subscription), arguments or None)
                return cursor.fetchall()
            except psycopg2.Error as refused:
                if refused.pgcode.startswith("42"):
                    raise
                return refused.pgcode

    def fetch(self, size: int | None, acked: int | None, token: str | None, lane: int | None, worker: str) -> Any:
        """Rows without the token, which is random; the SQLSTATE of an error."""
        verification = self.token if token == "newest" else token
        rows = self.call(FETCHES[self.subscription], size, acked, verification, lane, worker)
        if isinstance(rows, list) and rows:
            assert [(row[2],) for row in rows] == self.call(NEWEST_TOKEN) * len(rows)
            self.token = rows[0][2]
            return [(*row[:2], *row[3:]) for row in rows]
        return rows

    def cursor(self) -> Any:
        return self.call(CURSOR)


@pytest.fixture
def stream(world: World) -> World:
    deliver(world, 12)
    return world


@pytest.fixture
def session(stream: World) -> Iterator[Any]:
    with stream.session(STORE, autocommit=True) as connection:
        yield connection


def subscribe(session: Any, options: str = "") -> tuple[Twin, Twin]:
    twins = Twin(session, "usual"), Twin(session, "whole")
    for twin in twins:
        assert twin.call(f"select relaybox.subscribe('TWIN', 'flights'{options})") == [(1,)]
    return twins


WHOLE_WAY_BREAKS = """
create or replace function relaybox_internal.subscription_named(
    name text, is_ending boolean default false, is_reading boolean default false,
    gives_messages boolean default false, is_operating boolean default false
) returns relaybox_internal.subscription language plpgsql stable as $$ begin raise exception 'the whole way'; end $$;
select
"""
"""From here on a fetch that is not the usual case fails."""


def test_a_consumer_that_acknowledges_what_it_fetched_takes_the_usual_case(session: Any) -> None:
    """Also the first fetch, the rest of the stream, and the last one of the messages of a run."""
    usual, _ = subscribe(session)
    usual.call(WHOLE_WAY_BREAKS)
    got = usual.fetch(5, None, None, None, "w")
    assert [row[0] for row in got] == [1, 2, 3, 4, 5]
    assert [row[0] for row in usual.fetch(1, 5, "newest", None, "w")] == [6]
    assert [row[0] for row in usual.fetch(100, 6, "newest", 1, "w")] == [7, 8, 9, 10, 11, 12]
    assert usual.fetch(100, 12, "newest", None, "w") == "P0001"


@pytest.mark.parametrize(
    ("switch", "code"),
    [("bind_subscriptions", "RB040"), ("bind_topics", "RB041")],
)
def test_the_usual_case_asks_for_the_rights_of_a_role(stream: World, switch: str, code: str) -> None:
    """There are messages that it would give; the same login gets them where nothing is bound."""
    with stream.session(STORE, autocommit=True) as owner, owner.cursor() as cursor:
        subscribe(owner)
        cursor.execute("create role usual_consumer login in role relaybox_consumer")
        try:
            for bound in (True, False):
                cursor.execute(f"select relaybox_internal.{switch}({bound})")
                cursor.execute("set role usual_consumer")
                if bound:
                    with pytest.raises(psycopg2.Error) as refused:
                        cursor.execute("select * from relaybox.fetch('usual', 5, worker => 'w')")
                    assert refused.value.pgcode == code
                else:
                    cursor.execute("select * from relaybox.fetch('usual', 5, worker => 'w')")
                    assert [row[0] for row in cursor.fetchall()] == [1, 2, 3, 4, 5]
                cursor.execute("reset role")
        finally:
            cursor.execute("reset role")
            cursor.execute("drop role usual_consumer")


ACTIONS: tuple[Callable[[random.Random], tuple[Any, ...]], ...] = (
    *[lambda r: ("deliver", r.randint(5, 40), r.random() < 0.3)] * 2,
    *[lambda r: ("fetch", r.choice([1, 2, 3, 5, 50]), "all", "newest", None, "w")] * 12,
    *[lambda r: ("fetch", r.choice([1, 4, 50]), None, None, r.choice([None, 1]), "w")] * 5,
    *[lambda r: ("say", "select relaybox.ack('TWIN', {fetched}, '{token}')")] * 3,
    lambda r: ("fetch", r.choice([1, 4]), r.choice([-1, 0, 1, 2]), r.choice(["newest", None, "1-0123456789abcdef"]), None, "w"),
    lambda r: ("say", "select relaybox.ack('TWIN', {done} + %s, '{token}')", r.randint(1, 3)),
    *[lambda r: ("say", "select relaybox.nack('TWIN', {done} + %s, 'no', '{token}')", r.randint(1, 3))] * 3,
    lambda r: ("say", "select relaybox.release('TWIN', '{token}')"),
    *[lambda r: ("say", "select relaybox.redrive('TWIN', 'again')")] * 2,
    *[
        lambda r: (
            "say",
            "select first_stream_position, last_stream_position from relaybox.replay('TWIN', greatest({done} - %s, 1)::text, 'again')",
            r.randint(0, 6),
        )
    ]
    * 2,
    lambda r: ("say", "select relaybox.fetch_one_at_a_time('TWIN', 'killed', %s)", r.randint(1, 5)),
    *[lambda r: ("time passes",)] * 2,
    lambda r: ("drop", r.randint(-1, 2)),
)
DROP = """
update relaybox_internal.stream set first_kept_stream_position = greatest(1, least(last_stream_position + 1, (
    select min(c.done_stream_position) + 1 + %s from relaybox_internal.lane_cursors c
)))
"""


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(3, 15))])
def test_g7_g10_the_usual_case_is_the_whole_way(stream: World, session: Any, seed: int) -> None:
    """Two twins do the same: after each step they have the same rows, errors, cursors and dead letters."""
    seeded = random.Random(seed)
    twins = subscribe(session, SUBSCRIBED[seed % len(SUBSCRIBED)])
    for step in range(150):
        action = seeded.choice(ACTIONS)(seeded)
        if action[0] == "deliver":
            deliver(stream, action[1], backwards=action[2])
        elif action[0] == "time passes":
            twins[0].call(f"{TIME_PASSES} returning 1")
        elif action[0] == "drop":
            twins[0].call(f"{DROP} returning 1", action[1])
        else:
            answers = [act(twin, action) for twin in twins]
            assert answers[0] == answers[1], (seed, step, action)
        assert twins[0].cursor() == twins[1].cursor(), (seed, step, action)


CALLS = tuple(
    itertools.product(
        (3, 0, None),
        (None, "all", "all but one", "none"),
        (None, "newest", "1-0123456789abcdef"),
        (
            *((lane, "w") for lane in (None, 1, 2)),
            *((None, worker) for worker in ("v", None, "", "transaction 1", "transaction one", "x" * 301)),
        ),
    )
)
"""Arguments of fetch: max_count, what is acknowledged, token; only_lane and worker."""
STATES = {
    "nothing was fetched": (),
    "five are fetched": ("fetch",),
    "two of five are acknowledged": ("fetch", "ack 2"),
    "all is acknowledged": ("fetch", "ack 5"),
    "two are acknowledged, three are given back": ("fetch", "ack 2", "release"),
    "one is refused": ("fetch", "nack 3"),
    "one is refused, all are fetched again": ("fetch", "nack 3", "fetch"),
    "one is refused twice": ("fetch", "nack 3", "fetch", "nack 3"),
    "one is set aside behind": ("fetch", "nack 3", "fetch", "nack 3", "fetch", "ack 5"),
    "one is set aside ahead": ("fetch", "nack 3", "fetch", "nack 3", "fetch", "ack 5", "replay"),
    "one is to be redriven": ("fetch", "nack 3", "fetch", "nack 3", "fetch", "ack 5", "redrive"),
}
SAID = {
    "ack": "select relaybox.ack('TWIN', {position}, '{token}')",
    "nack": "select relaybox.nack('TWIN', {position}, 'no', '{token}')",
    "release": "select relaybox.release('TWIN', '{token}')",
    "replay": "select first_stream_position, last_stream_position from relaybox.replay('TWIN', '1', 'again')",
    "redrive": "select relaybox.redrive('TWIN', 'again')",
}


@pytest.mark.parametrize("state", STATES)
def test_g10_every_call_has_the_answer_of_the_whole_way(stream: World, state: str) -> None:
    """Rows or error, and the cursor, of all combinations of arguments."""
    with stream.session(STORE) as session:
        twins = subscribe(session, ", nack_limit => 2")
        session.commit()
        for twin, step in itertools.product(twins, STATES[state]):
            name, _, position = step.partition(" ")
            if name == "fetch":
                twin.fetch(5, None, None, None, "w")
            else:
                assert isinstance(twin.call(SAID[name].format(position=position, token=twin.token)), list), step
            session.commit()
        assert twins[0].cursor() == twins[1].cursor()
        done, fetched = twins[0].cursor()[0][2:4]
        acked_through = {None: None, "all": fetched, "all but one": fetched - 1, "none": done}
        tokens = [twin.token for twin in twins]
        differing = []
        for size, acked, token, (lane, worker) in CALLS:
            answers = []
            for twin, twin.token in zip(twins, tokens, strict=True):
                twin.call("savepoint before; select 1")
                answer = twin.fetch(size, acked_through[acked], token, lane, worker)
                if isinstance(answer, str):
                    twin.call("rollback to savepoint before; select 1")
                answers.append((answer, twin.cursor()))
            if answers[0] != answers[1]:
                differing.append((size, acked, token, lane, worker, *answers))
            session.rollback()
        assert differing == []


def test_older_cursors_are_removed_by_the_hundred(stream: World, session: Any) -> None:
    deliver(stream, 110)
    twins = subscribe(session)
    for number in range(105):
        answers = [twin.fetch(1, number or None, "newest" if number else None, None, "w") for twin in twins]
        assert answers[0] == answers[1]
        assert [row[0] for row in answers[0]] == [number + 1]
    assert twins[0].cursor() == twins[1].cursor()
    assert twins[0].call("select count(*) < 10 from relaybox_internal.cursor where subscription_id = 1") == [(True,)]


@pytest.mark.parametrize(
    "spoiled", ["suspect_stream_position = 1000, suspect_rows = 2", "replay_stream_position = 1000", "wait_until = now() + '1 h'"]
)
def test_g7_what_a_cursor_has_besides_its_place_counts(session: Any, spoiled: str) -> None:
    """Also where no action of the test above leads to it."""
    twins = subscribe(session, ", retry_seconds => 7200, crash_limit => 3")
    for twin in twins:
        twin.fetch(2, None, None, None, "w")
    twins[0].call(f"update relaybox_internal.cursor set {spoiled} returning 1")
    assert twins[0].fetch(5, 2, "newest", None, "w") == twins[1].fetch(5, 2, "newest", None, "w")
    assert twins[0].cursor() == twins[1].cursor()


def act(twin: Twin, action: tuple[Any, ...]) -> Any:
    (cursor,) = twin.cursor()
    done, fetched = cursor[2], cursor[3]
    if action[0] == "fetch":
        _, size, acked, token, lane, worker = action
        acked_through = fetched if acked == "all" else None if acked is None else done + acked
        return twin.fetch(size, acked_through, token, lane, worker)
    return twin.call(
        action[1].replace("{done}", str(done)).replace("{fetched}", str(fetched)).replace("{token}", twin.token or "none"),
        *action[2:],
    )
