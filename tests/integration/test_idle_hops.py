"""Hops that have nothing to move, beside a busy one: one look at the outbox for all of them, and who moves their snapshots on."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from relaybox import errors
from relaybox.hops import idle_hops
from relaybox.hops.idle_hops import pass_idle_hops
from tests.integration.pages import pages
from tests.support.world import World, insert, routes_file, wait_until

OTHERS = [f"other{number}" for number in range(12)]
ANSWERS_THAT_DIFFER = """
    select w.hop, w.has_work from relaybox_internal.hops_with_work() w where w.has_work <> relaybox_internal.hop_has_work(w.hop)
"""
"""Hops of which the look for all says something else than a look for each: one statement, so one snapshot."""

STATES_THAT_DIFFER = """
    with known as (select array(select h.hop from relaybox_internal.hop_out h) as hops),
    together as materialized (
        select s.hop, s.waiting_count, to_jsonb(s) - 'oldest_seconds' as state
        from known k cross join lateral relaybox_internal.sending_states(k.hops) s
    ),
    accounts as materialized (
        select a.hop, a.topic, a.waiting_count, to_jsonb(a) as account
        from known k cross join lateral relaybox_internal.account_for_outbox(k.hops, 0, 9223372036854775806) a
    ),
    alone as (
        select h.hop, (
            select to_jsonb(s) - 'oldest_seconds' from relaybox_internal.sending_states(array[h.hop]) s
        ) as state, array(
            select to_jsonb(a) from relaybox_internal.account_for_outbox(array[h.hop], 0, 9223372036854775806) a order by a.topic
        ) as accounts
        from known k cross join lateral unnest(k.hops) h (hop)
    )
    select a.hop, t.state, a.state, a.accounts
    from alone a left join together t on t.hop = a.hop
    where t.state is distinct from a.state
        or a.accounts <> array(select c.account from accounts c where c.hop = a.hop order by c.topic)
        or t.waiting_count <> (select coalesce(sum(c.waiting_count), 0) from accounts c where c.hop = a.hop)
"""
"""Hops of which the status of all says something else than the status of that hop, or something else than its account."""


def routes_of(world: World, names: list[str], *, spare: bool = False) -> None:
    """A route for each topic; the first one may have another topic beside its own."""
    more = {name: {"topics": [name], "path": ["airline", "hub"]} for name in names}
    if spare:
        more[names[0]]["topics"] += ["spare"]
    routes_file(world.path.parent, more_routes=more)


@pytest.fixture
def many(world: World) -> World:
    """Twelve hops beside flights/1, none of which has moved anything."""
    routes_of(world, OTHERS)
    world.register()
    return world


def lower(world: World, hop: str) -> str:
    return str(world.value("airline", "select lower::text from relaybox_internal.hop_out where hop = %s", hop))


def passed(world: World, *, beside: str = "flights/1") -> int:
    with world.store_session() as source:
        return pass_idle_hops(source, beside=beside)


def move(world: World, *names: str) -> None:
    for name in names:
        world.transfer(world.routes.hop(f"{name}/1"))


class Life:
    """What may happen to a store, one step at a time; `sent`: the payloads that are committed, by topic."""

    STEPS = (
        "send",
        "send_many",
        "insert",
        "insert",
        "commit",
        "roll_back",
        "move",
        "move",
        "pass_idle",
        "make_segments",
        "route_anew",
    )

    def __init__(self, world: World, seed: int, sessions: list[Any]) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.topics = ["flights", "spare", *OTHERS[:3]]
        self.sent: dict[str, list[str]] = {topic: [] for topic in self.topics}
        self.open: list[tuple[Any, list[tuple[str, str]]]] = [(session, []) for session in sessions]
        self.is_spare_routed = False

    def step(self, number: int) -> str:
        name = self.chance.choice(self.STEPS)
        getattr(self, name)(self.chance.choice(self.topics), f"{number}")
        return name

    def send(self, topic: str, payload: str) -> None:
        self.world.send(payload, topic=topic)
        self.sent[topic].append(payload)

    def send_many(self, _topic: str, payload: str) -> None:
        self.world.send_many(1_200, prefix=f"{payload} ")
        self.sent["flights"] += [f"{payload} {number}" for number in range(1, 1_201)]

    def insert(self, topic: str, payload: str) -> None:
        session, waiting = self.chance.choice(self.open)
        insert(session, payload, topic=topic)
        waiting.append((topic, payload))

    def commit(self, _topic: str, _payload: str) -> None:
        session, waiting = self.chance.choice(self.open)
        session.commit()
        for topic, payload in waiting:
            self.sent[topic].append(payload)
        waiting.clear()

    def roll_back(self, _topic: str, _payload: str) -> None:
        session, waiting = self.chance.choice(self.open)
        session.rollback()
        waiting.clear()

    def move(self, topic: str, _payload: str) -> None:
        move(self.world, OTHERS[0] if topic == "spare" else topic)

    def pass_idle(self, topic: str, _payload: str) -> None:
        passed(self.world, beside=self.chance.choice(["", f"{topic}/1"]))

    def make_segments(self, _topic: str, _payload: str) -> None:
        self.world.query("airline", "select relaybox_internal.ensure_outbox_segments()")

    def route_anew(self, _topic: str, _payload: str) -> None:
        """A route gets one more topic, or loses it: what is kept of it waits for the route to get it again."""
        self.is_spare_routed = not self.is_spare_routed
        routes_of(self.world, OTHERS, spare=self.is_spare_routed)
        self.world.register()


@pytest.mark.parametrize("seed", range(3))
def test_the_look_for_all_hops_says_what_a_look_for_each_says(many: World, seed: int) -> None:
    """Whatever was sent, is open, moved, passed, sealed or routed anew: asked after each step. At the end each message is there once."""
    with ExitStack() as stack:
        life = Life(many, seed, [stack.enter_context(many.session()) for _ in range(3)])
        for number in range(40):
            done = life.step(number)
            assert many.query("airline", ANSWERS_THAT_DIFFER) == [], f"after step {number} of seed {seed}: {done}"
            assert many.query("airline", STATES_THAT_DIFFER) == [], f"after step {number} of seed {seed}: {done}"
    if not life.is_spare_routed:
        life.route_anew("", "")
    move(many, "flights", *OTHERS[:3])
    life.sent[OTHERS[0]] += life.sent.pop("spare")
    arrived = {topic: sorted(many.payloads(f"{topic}/1")) for topic in life.sent}
    assert arrived == {topic: sorted(payloads) for topic, payloads in life.sent.items()}


def test_a_poll_of_many_idle_hops_reads_what_a_busy_one_sent_once(many: World) -> None:
    """Not once for each of them, while the busy hop has no driver that could move them on."""
    poll = "select count(*) filter (where has_work) from relaybox_internal.hops_with_work()"
    before = pages(many, "airline", poll)
    for _ in range(20):
        many.send_many(1_000)
    one = pages(many, "airline", "select relaybox_internal.hop_has_work('other1/1')")
    after = pages(many, "airline", poll)
    assert after < before + 1.5 * one, f"pages of a poll of all: {before}, then {after}; of one hop: {one}"
    assert many.value("airline", poll) == 1


@pytest.mark.parametrize("look", ["look_at_outbox('{}', null)", "hops_that_look_back('{}', 1000)"])
def test_a_look_at_no_hop_opens_no_segment(world: World, look: str) -> None:
    """Without the oldest snapshot of the hops it would be planned for all segments of the outbox."""
    with world.session() as session, session.cursor() as cursor:
        cursor.execute(f"select * from relaybox_internal.{look}")
        cursor.execute(
            """
            select l.relation::regclass::text from pg_locks l join pg_inherits i on i.inhrelid = l.relation
            where i.inhparent = 'relaybox.outbox'::regclass and l.pid = pg_backend_pid()
            """
        )
        assert cursor.fetchall() == []


def test_all_idle_hops_are_moved_on_together(many: World) -> None:
    many.send_many(1_200)
    assert passed(many) == len(OTHERS)
    assert len({lower(many, f"{name}/1") for name in OTHERS}) == 1
    assert passed(many) == 0, "nothing to move on"
    many.send("a message", topic="other7")
    many.send_many(1_200)
    assert passed(many) == len(OTHERS) - 1
    move(many, "other7")
    assert many.payloads("other7/1") == ["a message"]


def look(world: World) -> tuple[int, bool]:
    """One look that ends after some 600 rows: how many hops it moved on, and whether the next one gets further."""
    ((moved, has_more),) = world.query("airline", "select passed, has_more from relaybox_internal.pass_idle_hops('', 100, 600)")
    return moved, has_more


def test_looks_that_end_early_move_the_hops_as_far_as_they_came(many: World) -> None:
    """What is open all the time, and what commits between two looks, is found by later ones."""
    with many.session() as late, many.session() as later:
        for number in range(40):
            many.send_many(100, prefix=f"{number} ")
            if number == 5:
                insert(late, "late", topic="other3")
            if number == 30:
                insert(later, "later", topic="other3")
        lowers = [lower(many, "other3/1")]
        while look(many)[1]:
            lowers.append(lower(many, "other3/1"))
        assert len(set(lowers)) == len(lowers) > 2
        late.commit()
        assert many.query("airline", ANSWERS_THAT_DIFFER) == []
        later.commit()
    many.send_many(1_200, prefix="more ")
    assert passed(many) == len(OTHERS) - 1
    assert many.query("airline", ANSWERS_THAT_DIFFER) == []
    move(many, "other3")
    assert many.payloads("other3/1") == ["late", "later"]


def test_a_transaction_that_is_longer_than_a_piece_is_read_whole(many: World) -> None:
    with many.session() as session:
        insert(session, *[f"{number}" for number in range(700)])
        insert(session, "the last one", topic="other3")
        session.commit()
    many.send_many(1_200)
    assert passed(many) == len(OTHERS) - 1
    assert many.query("airline", ANSWERS_THAT_DIFFER) == []
    move(many, "other3")
    assert many.payloads("other3/1") == ["the last one"]


def test_a_driver_begins_no_look_after_its_time(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_hops, "_ROWS_AT_ONCE", 600)
    for number in range(40):
        many.send_many(100, prefix=f"{number} ")
    begun = lower(many, "other3/1")
    with many.store_session() as source:
        assert pass_idle_hops(source, seconds=0.0) == 0
        assert lower(many, "other3/1") == begun
        assert pass_idle_hops(source, seconds=30.0) > len(OTHERS), "several looks"


@pytest.fixture
def paused_look(many: World) -> World:
    """Looks of other sessions wait after they have read, while a session holds advisory lock 42."""
    many.query(
        "airline",
        """
        alter function relaybox_internal.look_at_outbox rename to look_at_outbox_at_once;
        create function relaybox_internal.look_at_outbox(
            heads relaybox_internal.hop_out[], most_rows bigint, out idle text[], out through_xid xid8
        ) language plpgsql volatile as $$
        begin
            select * into idle, through_xid from relaybox_internal.look_at_outbox_at_once(heads, most_rows);
            perform pg_advisory_lock_shared(42);
            perform pg_advisory_unlock_shared(42);
        end
        $$
        """,
    )
    return many


def test_what_commits_after_the_look_is_found_by_the_next_one(paused_look: World) -> None:
    """The snapshot that a hop is moved on to is taken before the look, under the lock of the hop."""
    world = paused_look
    with world.session() as gate, world.session() as late, ThreadPoolExecutor(1) as pool:
        insert(late, "open at the look", topic="other3")
        world.send_many(1_200)
        gate.cursor().execute("select pg_advisory_lock(42)")
        passing = pool.submit(passed, world)
        wait_until(
            lambda: world.value("airline", "select count(*) from pg_locks where locktype = 'advisory' and not granted"),
            "the look has read",
        )
        late.commit()
        world.send("sent after it", topic="other3")
        with world.session() as planner, pytest.raises(Exception, match="could not obtain lock"):
            planner.cursor().execute("select from relaybox_internal.hop_out where hop = 'other3/1' for update nowait")
        gate.rollback()
        gate.cursor().execute("select pg_advisory_unlock_all()")
        assert passing.result() == len(OTHERS)
    world.query("airline", "drop function relaybox_internal.look_at_outbox")
    world.query("airline", "alter function relaybox_internal.look_at_outbox_at_once rename to look_at_outbox")
    assert world.value("airline", "select relaybox_internal.hop_has_work('other3/1')") is True
    move(world, "other3")
    assert world.payloads("other3/1") == ["open at the look", "sent after it"]


def test_a_driver_that_answers_no_more_after_a_look_holds_no_hop(many: World) -> None:
    many.send_many(1_200)
    with many.store_session() as source, many.session() as planner:
        assert pass_idle_hops(source, beside="flights/1") == len(OTHERS)
        planner.cursor().execute("select from relaybox_internal.hop_out for update nowait")


def test_a_hop_is_moved_on_when_that_is_flushed_whatever_the_role_says(many: World) -> None:
    with many.session() as session, session.cursor() as cursor:
        cursor.execute("set synchronous_commit = off")
        session.commit()
        cursor.execute("select relaybox_internal.pass_idle_hops('', 1000, 200000)")
        cursor.execute("show synchronous_commit")
        assert cursor.fetchone() == ("local",)


def test_what_the_same_transaction_inserts_afterwards_is_moved(many: World) -> None:
    """Other transactions end between the locks and the snapshot, so that the number of this one is below its end."""
    many.query(
        "airline",
        """
        alter function relaybox_internal.lock_idle_hops rename to lock_idle_hops_at_once;
        create function relaybox_internal.lock_idle_hops(names text[]) returns setof relaybox_internal.hop_out
        language plpgsql volatile as $$
        begin
            return query select * from relaybox_internal.lock_idle_hops_at_once(names);
            perform pg_advisory_lock_shared(42);
        end
        $$
        """,
    )
    many.send_many(1_200)
    with many.session() as session, many.session() as gate, ThreadPoolExecutor(1) as pool:
        gate.cursor().execute("select pg_advisory_lock(42)")
        gate.commit()
        passing = pool.submit(session.cursor().execute, "select relaybox_internal.pass_idle_hops('', 1000, 200000)")
        wait_until(
            lambda: many.value("airline", "select count(*) from pg_locks where locktype = 'advisory' and not granted"),
            "the hops are locked",
        )
        many.send_many(1)
        gate.cursor().execute("select pg_advisory_unlock(42)")
        passing.result()
        insert(session, "its own", topic="other3")
        session.commit()
    assert many.value("airline", "select relaybox_internal.hop_has_work('other3/1')") is True


def test_what_the_transaction_of_a_skipped_pair_inserts_afterwards_is_moved(many: World) -> None:
    """Another transaction ends between the lock and the snapshot; a hop never goes back to what it has skipped."""
    with many.session() as session, session.cursor() as cursor:
        cursor.execute("select * from relaybox_internal.lock_hop('other3/1')")
        many.send_many(1)
        cursor.execute("select pg_current_snapshot()::text")
        (taken,) = cursor.fetchone()
        cursor.execute("select relaybox_internal.skip_empty_pair('other3/1', %s)", (taken,))
        insert(session, "its own", topic="other3")
        session.commit()
    move(many, "other3")
    assert many.payloads("other3/1") == ["its own"]
    with many.session() as session, session.cursor() as cursor:
        cursor.execute("select relaybox_internal.skip_empty_pair('other3/1', pg_current_snapshot())")
        session.commit()
    before = lower(many, "other3/1")
    many.query("airline", "select relaybox_internal.skip_empty_pair('other3/1', %s)", taken)
    assert lower(many, "other3/1") == before


def test_a_hop_whose_source_lost_history_stays_and_the_others_are_moved_on(many: World) -> None:
    many.query("airline", "update relaybox_internal.hop_out set timeline = timeline + 7 where hop = 'other3/1'")
    before = lower(many, "other3/1")
    many.send_many(1_200)
    assert passed(many) == len(OTHERS) - 1
    assert lower(many, "other3/1") == before


def test_a_hop_with_a_batch_that_is_not_confirmed_stays(many: World) -> None:
    many.query("airline", "update relaybox_internal.hop_out set batch = batch + 1 where hop = 'other3/1'")
    many.send_many(1_200)
    assert passed(many) == len(OTHERS) - 1


def test_a_store_on_which_no_hop_may_plan_is_told(many: World, caplog: pytest.LogCaptureFixture) -> None:
    many.query("airline", "alter table relaybox.outbox alter xid set default '5'::xid8")
    with caplog.at_level("INFO"):
        assert passed(many) == 0
    assert "idle_hops_not_moved_on store=airline" in caplog.text
    with pytest.raises(errors.RelayboxError):
        move(many, "other3")


@pytest.mark.parametrize(
    ("taken", "xid", "below"),
    [
        ("10:20:12,15", "25", "10:20:12,15"),
        ("10:20:12,15", "20", "10:20:12,15"),
        ("10:20:10,15", "15", "10:15:10"),
        ("10:20:10,15", "16", "10:16:10,15"),
        ("10:20:10,15", "10", "10:10:"),
        ("10:20:10,15", "7", "7:7:"),
        ("10:10:", "7", "7:7:"),
    ],
)
def test_a_snapshot_below_a_number_knows_what_the_snapshot_knew(world: World, taken: str, xid: str, below: str) -> None:
    assert world.value("airline", "select relaybox_internal.snapshot_below(%s, %s)::text", taken, xid) == below
    same = """
        select bool_and(pg_visible_in_snapshot(n::text::xid8, %s) = (n < %s and pg_visible_in_snapshot(n::text::xid8, %s)))
        from generate_series(1, 30) n
    """
    assert world.value("airline", same, below, int(xid), taken) is True
