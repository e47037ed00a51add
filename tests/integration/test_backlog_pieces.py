"""Whatever topics a hop gets and loses: each row of the outbox stands in its ledger once, and waits exactly while its topic is routed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.world import World, insert

TOPICS = "abc"
CHANGES = (
    ("a",),
    ("b",),
    ("a", "b"),
    ("c",),
    ("a", "c"),
    ("a", "b", "c"),
    (),
    ("b", "c"),
)
ACCOUNT = "select a.seq, a.state from relaybox_internal.accounted_seqs('{flights/1}', %s, %s) a order by 1, 2"


def test_each_row_is_accounted_for_once_whatever_topics_come_and_go(world: World) -> None:
    """Rows below, at and above the anchor, committed before and after the hop's frontier, one of them by a transaction that was open."""
    frontiers = ["1:1:"]
    with world.session() as late:
        for n, topic in enumerate("abcab", start=1):
            world.send(str(n), topic=topic)
        insert(late, "6", topic="a")
        frontiers.append(world.value("airline", "select pg_current_snapshot()::text"))
        world.send("7", topic="c")
        late.commit()
    world.send("8", topic="b")
    frontiers.append(world.value("airline", "select pg_current_snapshot()::text"))
    topics = dict(world.query("airline", "select seq, topic from relaybox.outbox order by seq"))
    assert list(topics) == list(range(1, 9))
    for frontier in frontiers:
        for anchor in (0, 1, 2, 5, 6, 8):
            for changes in (CHANGES, CHANGES[::-1], CHANGES[3:]):
                with standing_at(world, frontier, anchor) as cursor:
                    follow(cursor, topics, changes)


@contextmanager
def standing_at(world: World, frontier: str, anchor: int) -> Iterator[Any]:
    """A hop that never had one of the topics: a cursor whose transaction is rolled back."""
    with world.session() as session, session.cursor() as cursor:
        cursor.execute("update relaybox_internal.hop_out set lower = %s, anchor_seq = %s", (frontier, anchor))
        yield cursor
        session.rollback()


def follow(cursor: Any, topics: dict[int, str], changes: Sequence[tuple[str, ...]]) -> None:
    had: set[str] = set()
    routed: set[str] = set()
    for change in changes:
        cursor.execute("select relaybox_internal.change_topics('flights/1', %s)", (["flights", *change],))
        assert cursor.fetchone() == (routed != set(change),)
        routed = set(change)
        had |= routed
        expected = [(seq, "waiting" if topic in routed else "unrouted") for seq, topic in topics.items() if topic in had]
        for after, through in ((0, 100), (0, 4), (4, 5), (5, 8), (7, 100)):
            cursor.execute(ACCOUNT, (after, through))
            assert cursor.fetchall() == [(seq, state) for seq, state in expected if after < seq <= through], (change, after)
        cursor.execute("select relaybox_internal.change_topics('flights/1', %s)", (["flights", *reversed(change)],))
        assert cursor.fetchone() == (False,), "the same topics in another order"


def test_what_is_given_up_is_what_had_committed_by_then(world: World) -> None:
    """Of a topic that went and of one that never came; what was open, and what is sent later, stays and comes back with its topic."""
    frontiers = ["1:1:"]
    for n, topic in enumerate("abcabc", start=1):
        world.send(str(n), topic=topic)
    frontiers.append(world.value("airline", "select pg_current_snapshot()::text"))
    world.send("7", topic="a")
    for frontier in frontiers:
        for anchor in (0, 1, 2, 4, 6, 7):
            with standing_at(world, frontier, anchor) as cursor, world.session() as late:
                give_up(world, cursor, late)


def give_up(world: World, cursor: Any, late: Any) -> None:
    states: dict[int, str] = {}

    def tell(given_up: str, kept: str, *, routed: str) -> None:
        """Each row is looked at as it is now: one that is new is kept, or waits if its topic is routed."""
        for seq, topic in world.query("airline", "select seq, topic from relaybox.outbox"):
            if states.get(seq) != "retired" and topic in given_up + kept + routed:
                states[seq] = "retired" if topic in given_up else "waiting" if topic in routed else "unrouted"
        cursor.execute(ACCOUNT, (0, 1000))
        assert cursor.fetchall() == sorted(states.items()), (given_up, kept, routed)

    def change(*topics: str) -> None:
        cursor.execute("select relaybox_internal.change_topics('flights/1', %s)", (["flights", *topics],))

    def retire(*topics: str) -> int:
        cursor.execute("select relaybox_internal.retire_topics('flights/1', %s, 'why', 'test')", (list(topics),))
        return int(cursor.fetchone()[0])

    change("a", "c")
    change("c")
    tell("", "a", routed="c")
    insert(late, "open", topic="a")
    insert(late, "open", topic="b")
    assert retire("a", "b") > 0
    tell("ab", "", routed="c")
    late.commit()
    tell("", "ab", routed="c")
    world.send("later", topic="b")
    tell("", "ab", routed="c")
    assert retire("a") > 0
    tell("a", "b", routed="c")
    change("a", "b", "c")
    tell("", "", routed="abc")
