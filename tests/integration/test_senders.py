"""Who sends: senders that number their messages themselves, their epochs, and what logs say of those that do not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from tests.support.patience import patience
from tests.support.world import World, wait_until

READ = "select log_position, epoch, index, clock, payload from relaybox.read_log(%s)"


def test_a_message_without_an_index_is_numbered_by_its_position_in_epoch_0(world: World) -> None:
    """In the first log and in all further ones; what producers numbered travels as they wrote it."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, payload, index, epoch, clock) values "
        "('flights', 'UA', 'plain', null, default, null), ('flights', 'pump', 'own', 7, 3, null), "
        "('flights', 'UA', 'no index, an epoch', null, 5, null), "
        """('flights', 'pump', 'own, caused', 8, default, '{"UA": 1, "hub": [2, 9]}')""",
    )
    world.transfer_all()
    rows = [
        (1, 0, 1, None, "plain"),
        (2, 3, 7, None, "own"),
        (3, 0, 3, None, "no index, an epoch"),
        (4, 1, 8, {"UA": 1, "hub": [2, 9]}, "own, caused"),
    ]
    assert world.query("hub", READ, "flights/1") == world.query("analytics", READ, "flights/2") == rows
    assert (
        world.query("hub", "select log_position, epoch, index, clock, payload from relaybox.inbox order by log_position") == rows
    )


def test_sparse_slices_number_in_epoch_0_too(world: World) -> None:
    """A slice whose range has rows of another topic between its own is read by another function."""
    for n in range(3):
        world.send(f"m{n}")
        world.send("of another topic", topic="other")
    world.transfer()
    assert world.query("hub", READ, "flights/1") == [(n + 1, 0, n + 1, None, f"m{n}") for n in range(3)]


# --- declaring ------------------------------------------------------------------------------------------------------------


def refused(world: World, query: str, *arguments: object, store: str = "airline") -> tuple[str, str, str]:
    """SQLSTATE, message and hint of a statement that fails."""
    with pytest.raises(psycopg2.Error) as error:
        world.query(store, query, *arguments)
    diagnosis = error.value.diag
    return str(error.value.pgcode), diagnosis.message_primary or "", diagnosis.message_hint or ""


def declare(world: World, sender: str, kind: str) -> int:
    return int(world.value("airline", "select relaybox.declare_sender(%s, %s)", sender, kind))


def test_declaring_again_changes_nothing_and_another_kind_is_refused(world: World) -> None:
    """The epoch comes back; a sender never changes its kind within one."""
    assert [declare(world, "pump", "gapless"), declare(world, "pump", "gapless"), declare(world, "probe", "sparse")] == [1, 1, 1]
    code, message, hint = refused(world, "select relaybox.declare_sender('pump', 'sparse')")
    assert (code, message) == ("RB021", "sender pump is gapless here since epoch 1, not sparse")
    assert hint == "Another kind is a new epoch: select relaybox.new_epoch('pump', 'sparse')"
    assert world.query("airline", "select origin, sender, epoch, kind from relaybox_internal.sender order by sender") == [
        ("airline", "probe", 1, "sparse"),
        ("airline", "pump", 1, "gapless"),
    ]


@pytest.mark.parametrize(
    ("sender", "kind", "said"),
    [
        ("pump", "assigned", "sender pump: assigned is not declared, it is what every undeclared sender is"),
        ("pump", "Gapless", "sender pump: there is no kind Gapless"),
        ("pump", None, "sender pump: there is no kind null"),
        ("pump station", "gapless", "'pump station' is no name of a sender"),
        ("", "gapless", "'' is no name of a sender"),
        (None, "gapless", "null is no name of a sender"),
    ],
)
def test_what_cannot_be_declared_is_refused_with_the_reason(
    world: World, sender: str | None, kind: str | None, said: str
) -> None:
    code, message, hint = refused(world, "select relaybox.declare_sender(%s, %s)", sender, kind)
    assert (code, message, bool(hint)) == ("RB021", said, True)


def test_a_new_epoch_starts_the_counter_anew_and_may_change_the_kind(world: World) -> None:
    """Rows of older epochs stay; the counter follows the newest epoch."""
    declare(world, "pump", "gapless")
    indexes = [world.value("airline", "select relaybox.next_index('pump')") for _ in range(3)]
    assert world.value("airline", "select relaybox.new_epoch('pump')") == 2
    after = world.value("airline", "select relaybox.next_index('pump')")
    assert (indexes, after, world.value("airline", "select relaybox.sender_epoch('pump')")) == ([1, 2, 3], 1, 2)
    assert world.value("airline", "select relaybox.new_epoch('pump', 'sparse')") == 3
    assert declare(world, "pump", "sparse") == 3
    code, message, hint = refused(world, "select relaybox.next_index('pump')")
    assert (code, message) == ("RB022", "sender pump is sparse in this store, and only gapless senders have a counter")
    assert hint == "Begin a gapless epoch: select relaybox.new_epoch('pump', 'gapless')"
    assert world.query("airline", "select epoch, kind from relaybox_internal.sender order by epoch") == [
        (1, "gapless"),
        (2, "gapless"),
        (3, "sparse"),
    ]


@pytest.mark.parametrize("call", ["new_epoch('nobody')", "sender_epoch('nobody')", "next_index('nobody')"])
def test_an_undeclared_sender_has_no_epoch_and_no_counter(world: World, call: str) -> None:
    code, message, hint = refused(world, f"select relaybox.{call}")
    assert (code, "sender nobody is not declared in this store" in message) == ("RB022", True)
    assert hint == "Declare it: select relaybox.declare_sender('nobody', 'gapless')"


def test_an_index_that_is_rolled_back_is_given_again(world: World) -> None:
    """Gapless means gapless: only what commits is used up."""
    declare(world, "pump", "gapless")
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("select relaybox.next_index('pump')")
        connection.rollback()
    assert world.value("airline", "select relaybox.next_index('pump')") == 1


def test_the_counter_is_locked_until_its_transaction_ends(world: World) -> None:
    """A second session of the sender waits, and so does a new epoch; another sender does not."""
    declare(world, "pump", "gapless")
    declare(world, "probe", "gapless")
    with world.session() as first, ThreadPoolExecutor(2) as pool, first.cursor() as cursor:
        cursor.execute("select relaybox.next_index('pump')")
        waiting = pool.submit(world.value, "airline", "select relaybox.next_index('pump')")
        wait_until(lambda: waits(world) == 1, "the second session waits for the first")
        anew = pool.submit(world.value, "airline", "select relaybox.new_epoch('pump')")
        wait_until(lambda: waits(world) == 2, "the new epoch waits")
        assert world.value("airline", "select relaybox.next_index('probe')") == 1
        assert not waiting.done()
        assert not anew.done()
        first.commit()
        # who waits for a row that changed queues anew: either of the two may be first
        assert (waiting.result(patience(30)), anew.result(patience(30))) in {(2, 2), (1, 2)}


def test_two_new_epochs_at_once_are_two_epochs(world: World) -> None:
    """The second waits for the first and counts on from it; neither fails."""
    declare(world, "pump", "gapless")
    with world.session() as first, ThreadPoolExecutor(1) as pool, first.cursor() as cursor:
        cursor.execute("select relaybox.new_epoch('pump')")
        second = pool.submit(world.value, "airline", "select relaybox.new_epoch('pump')")
        wait_until(lambda: waits(world) == 1, "the second waits for the first")
        first.commit()
        assert (cursor.fetchone(), second.result(patience(30))) == ((2,), 3)


def waits(world: World) -> int:
    return int(
        world.value(
            "airline",
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
    )


def test_an_epoch_that_begins_between_is_the_one_the_message_carries(world: World) -> None:
    """One insert with next_index() and sender_epoch() never mixes two epochs, however it is interleaved with new_epoch()."""
    declare(world, "pump", "gapless")
    with world.session() as beginning, ThreadPoolExecutor(1) as pool, beginning.cursor() as cursor:
        cursor.execute("select relaybox.new_epoch('pump')")
        sending = pool.submit(
            world.query,
            "airline",
            "insert into relaybox.outbox (topic, sender, epoch, index, payload) "
            "values ('flights', 'pump', relaybox.sender_epoch('pump'), relaybox.next_index('pump'), 'x')",
        )
        wait_until(lambda: waits(world) == 1, "the insert waits for the new epoch")
        beginning.commit()
        sending.result(patience(30))
    assert world.query("airline", "select epoch, index from relaybox.outbox") == [(2, 1)]


def test_a_declaration_is_flushed_although_its_producer_does_not_wait_for_commits(world: World) -> None:
    """A message may be delivered by a declaration that a crash must not take back."""
    for statement in ("select relaybox.declare_sender('pump', 'gapless')", "select relaybox.new_epoch('pump')"):
        with world.session() as connection, connection.cursor() as cursor:
            cursor.execute("set synchronous_commit = off")
            cursor.execute(statement)
            cursor.execute("show synchronous_commit")
            assert cursor.fetchone() == ("on",)
            connection.commit()


def test_a_producer_may_declare_and_number_and_nothing_else_about_senders(world: World) -> None:
    """Its functions are enough; tables, bindings and what drivers call are closed."""
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_producer")
        cursor.execute(
            "select relaybox.declare_sender('pump', 'gapless'), relaybox.new_epoch('pump'), relaybox.sender_epoch('pump')"
        )
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload, epoch, index, clock) "
            """values ('flights', 'pump', 'x', 2, relaybox.next_index('pump'), '{"pump": [2, 1]}') returning message_id"""
        )
        connection.commit()
        for statement in (
            "insert into relaybox_internal.sender (origin, sender, epoch, kind) values ('airline', 'x', 1, 'sparse')",
            "update relaybox_internal.sender_counter set last_index = 99",
            "insert into relaybox.sender_role (sender, role_name) values ('pump', 'relaybox_producer')",
            "select relaybox_internal.bind_sender('pump', 'relaybox_producer')",
            "select relaybox_internal.unbind_sender('pump', 'relaybox_producer')",
            "select relaybox_internal.bind_senders(true)",
            "select relaybox_internal.senders_since('airline', null)",
            "select relaybox_internal.remember_senders(1, null, '[]')",
        ):
            cursor.execute("savepoint attempt")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(statement)
            cursor.execute("rollback to savepoint attempt")
        connection.commit()
    declared_by = world.value("airline", "select declared_by from relaybox_internal.sender where epoch = 2")
    assert declared_by == world.value("airline", "select session_user")
    assert world.query("airline", "select epoch, index from relaybox.outbox") == [(2, 1)]


@pytest.mark.parametrize("index", [0, -1, 2**63 - 1])
def test_an_index_that_no_sender_can_have_is_refused_by_a_constraint(world: World, index: int) -> None:
    with pytest.raises(psycopg2.errors.CheckViolation, match=r"index_and_epoch_positive|index_below_the_largest"):
        world.query(
            "airline", "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'pump', %s, 'x')", index
        )


# --- carrying -------------------------------------------------------------------------------------------------------------


def since(world: World, store: str, seen: str | None) -> tuple[str, list[tuple[str, int, str]], str]:
    """What senders_since gives: the snapshot, the declarations, and their JSON."""
    ((through, senders, document),) = world.query(
        store,
        "select through::text, senders, senders::text from relaybox_internal.senders_since('airline', %s::pg_snapshot)",
        seen,
    )
    return str(through), [(one["sender"], one["epoch"], one["kind"]) for one in senders], str(document)


def remember(world: World, store: str, hop: str, seen: str, document: str) -> int:
    return int(
        world.value(
            store,
            (
                "select relaybox_internal.remember_senders((select log_id from relaybox_internal.hop_in "
                "where hop = %s), %s::pg_snapshot, %s::jsonb)"
            ),
            *(hop, seen, document),
        )
    )


@pytest.fixture
def streams(world: World) -> World:
    """The world with a stream on each log, as init registers them."""
    for store in ("hub", "analytics"):
        world.query(store, "delete from relaybox_internal.stream_log")
        world.query(
            store,
            "insert into relaybox_internal.stream (stream, delivery_order) values ('flights', 'fifo') on conflict (stream) do nothing",
        )
        world.query(
            store,
            "insert into relaybox_internal.stream_log (log_id, stream_id, origin) "
            "select i.log_id, s.stream_id, 'airline' from relaybox_internal.hop_in i, relaybox_internal.stream s",
        )
    return world


def test_declarations_are_carried_along_the_path_each_once(streams: World) -> None:
    """By snapshots: what commits late is in the next answer, and the second hop carries what the first one brought."""
    world = streams
    declare(world, "pump", "gapless")
    with world.session() as late, late.cursor() as cursor:
        cursor.execute("select relaybox.declare_sender('late', 'sparse')")
        declare(world, "probe", "sparse")
        through, declared, document = since(world, "airline", None)
        assert declared == [("probe", 1, "sparse"), ("pump", 1, "gapless")]
        assert remember(world, "hub", "flights/1", through, document) == 2
        late.commit()
    again, declared, document = since(world, "airline", through)
    assert declared == [("late", 1, "sparse")]
    assert remember(world, "hub", "flights/1", again, document) == 1
    assert since(world, "airline", again)[1] == []
    assert world.value("hub", "select senders_seen::text from relaybox_internal.stream_log") == again
    through, declared, document = since(world, "hub", None)
    assert declared == [("late", 1, "sparse"), ("probe", 1, "sparse"), ("pump", 1, "gapless")]
    assert remember(world, "analytics", "flights/2", through, document) == 3
    columns = "select origin, sender, epoch, kind, declared_at, declared_by from relaybox_internal.sender order by sender"
    assert world.query("analytics", columns) == world.query("hub", columns) == world.query("airline", columns)


def test_declarations_that_come_twice_are_no_news(streams: World) -> None:
    """A driver that was killed before it knew carries them again."""
    declare(streams, "pump", "gapless")
    through, _, document = since(streams, "airline", None)
    assert [remember(streams, "hub", "flights/1", through, document) for _ in range(2)] == [1, 0]


def test_a_declaration_that_contradicts_one_already_here_is_lost_history(streams: World) -> None:
    """The origin forgot a declaration and made another: nothing is overwritten, and the repair works."""
    world = streams
    declare(world, "pump", "gapless")
    through, _, document = since(world, "airline", None)
    remember(world, "hub", "flights/1", through, document)
    world.query("airline", "delete from relaybox_internal.sender")
    world.query("airline", "delete from relaybox_internal.sender_counter")
    declare(world, "pump", "sparse")
    through, _, document = since(world, "airline", None)
    with pytest.raises(psycopg2.Error) as error:
        remember(world, "hub", "flights/1", through, document)
    assert error.value.pgcode == "RB016"
    assert error.value.diag.message_primary == "epoch 1 of sender pump of airline is gapless here and sparse at the source"
    assert "relaybox senders new-epoch airline pump" in str(error.value.diag.message_hint)
    world.query("airline", "delete from relaybox_internal.sender where epoch = 1")
    assert world.value("airline", "select relaybox.new_epoch('pump', 'sparse')") == 2
    through, _, document = since(world, "airline", None)
    assert remember(world, "hub", "flights/1", through, document) == 1


def test_an_older_snapshot_never_replaces_a_newer_one(streams: World) -> None:
    """Two drivers: what the slower one knows is true, and older."""
    world = streams
    with world.session("hub") as slow, slow.cursor() as cursor:
        cursor.execute("select now()")
        through, _, document = since(world, "airline", None)
        declare(world, "pump", "gapless")
        newer, _, news = since(world, "airline", None)
        remember(world, "hub", "flights/1", newer, news)
        cursor.execute("select relaybox_internal.remember_senders(1, %s::pg_snapshot, %s::jsonb)", (through, document))
        slow.commit()
    assert world.value("hub", "select senders_seen::text from relaybox_internal.stream_log") == newer


def test_a_new_generation_of_a_hop_asks_for_every_declaration_again(streams: World) -> None:
    """Snapshots of a history that the source lost say nothing about the one it has now."""
    through, _, document = since(streams, "airline", None)
    remember(streams, "hub", "flights/1", through, document)
    streams.query(
        "hub", "select relaybox_internal.begin_generation(log_id, 2) from relaybox_internal.hop_in where hop = 'flights/1'"
    )
    assert streams.value("hub", "select senders_seen from relaybox_internal.stream_log") is None
