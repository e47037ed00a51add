"""G1: a message exists if and only if the producer's transaction committed."""

from __future__ import annotations

import psycopg2
import pytest

from tests.support.world import World, insert


def test_g1_committed_messages_arrive_and_rolled_back_ones_never(world: World) -> None:
    """Of two transactions, only the one that committed is in the log."""
    with world.session() as connection:
        insert(connection, "committed")
        connection.commit()
        insert(connection, "rolled back")
        connection.rollback()
    world.transfer_all()
    assert world.payloads("flights/1") == world.payloads("flights/2") == ["committed"]


def test_g1_a_savepoint_rolled_back_takes_its_messages_with_it(world: World) -> None:
    """Rows of a rolled back savepoint are not sent; rows around it, and of released ones, are."""
    with world.session() as connection, connection.cursor() as cursor:
        insert(connection, "before")
        cursor.execute("savepoint one")
        insert(connection, "undone")
        cursor.execute("rollback to savepoint one")
        cursor.execute("savepoint two")
        insert(connection, "kept")
        cursor.execute("release savepoint two")
        insert(connection, "after")
        connection.commit()
    world.transfer()
    assert world.payloads() == ["before", "kept", "after"]


def test_g1_more_subtransactions_than_a_snapshot_caches(world: World) -> None:
    """A transaction with 200 savepoints (64 are cached), every third rolled back, is sent exactly."""
    with world.session() as connection, connection.cursor() as cursor:
        for n in range(200):
            cursor.execute("savepoint s")
            insert(connection, str(n))
            cursor.execute("rollback to savepoint s" if n % 3 == 0 else "release savepoint s")
        world.transfer()
        assert world.payloads() == []
        connection.commit()
    world.transfer()
    assert world.payloads() == [str(n) for n in range(200) if n % 3]


def test_g1_a_prepared_transaction_is_sent_when_it_commits(world: World) -> None:
    """Two-phase commit: prepared is not committed; committed later by another session is sent."""
    with world.session() as connection:
        transaction = connection.xid(1, "order-1", "main")
        connection.tpc_begin(transaction)
        insert(connection, "prepared")
        connection.tpc_prepare()
        connection.reset()
    world.send("meanwhile")
    world.transfer()
    assert world.payloads() == ["meanwhile"]
    with world.session() as connection:
        connection.tpc_commit(connection.xid(1, "order-1", "main"))
    world.transfer()
    assert world.payloads() == ["meanwhile", "prepared"]


def test_g1_the_producer_s_role_can_insert_and_nothing_else(world: World) -> None:
    """An application writes its columns; seq and xid are not its own, and nothing can be changed or removed."""
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_producer")
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'mine') returning message_id"
        )
        connection.commit()
        for statement in (
            "insert into relaybox.outbox (topic, sender, payload, seq) values ('flights', 'UA', 'x', 1)",
            "insert into relaybox.outbox (topic, sender, payload, xid) values ('flights', 'UA', 'x', '3')",
            "update relaybox.outbox set payload = 'changed'",
            "delete from relaybox.outbox",
            "truncate relaybox.outbox",
            "select payload from relaybox.outbox",
            "select * from relaybox_internal.batch",
            "select relaybox_internal.begin_attempt('flights/1')",
            "select setval('relaybox.outbox_seq', 1)",
        ):
            cursor.execute("savepoint attempt")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(statement)
            cursor.execute("rollback to savepoint attempt")
        connection.commit()
    world.transfer()
    assert world.payloads() == ["mine"]


@pytest.mark.parametrize(
    ("columns", "values", "constraint"),
    [
        ("topic, sender", "'flights', 'UA'", "message_has_exactly_one_payload"),
        ("topic, sender, payload, payload_bytes", "'flights', 'UA', 'x', 'x'", "message_has_exactly_one_payload"),
        ("topic, sender, payload", "'flights', 'UA', repeat('x', 16777217)", "payload_at_most_16_mib"),
        ("topic, sender, payload_bytes", "'flights', 'UA', repeat('x', 16777217)::bytea", "payload_at_most_16_mib"),
        ("topic, sender, payload", "'Flights; drop', 'UA', 'x'", "topic_is_a_plain_name"),
        ("topic, sender, payload", "'flights', repeat('x', 49), 'x'", "sender_is_a_plain_name"),
        ("topic, sender, payload, headers", "'flights', 'UA', 'x', '[1]'", "headers_are_an_object"),
        (
            "topic, sender, payload, headers",
            "'flights', 'UA', 'x', jsonb_build_object('k', repeat('x', 65536))",
            "headers_at_most_64_kib",
        ),
        ("topic, sender, payload, key", "'flights', 'UA', 'x', repeat('k', 201)", "key_at_most_200_characters"),
    ],
)
def test_g1_a_bad_message_is_refused_by_a_constraint_that_says_why(
    world: World, columns: str, values: str, constraint: str
) -> None:
    """What could break a hop can't enter the outbox; the name of the constraint is the reason."""
    with pytest.raises(psycopg2.errors.CheckViolation, match=constraint):
        world.query("airline", f"insert into relaybox.outbox ({columns}) values ({values})")


def test_g1_hostile_payloads_arrive_byte_by_byte(world: World) -> None:
    """Text and bytes of any kind, up to the limit, arrive as they were written."""
    texts = ["", "a\nb\\c\td", "{{ 7*7 }}", "💾 ÄÖ \u202e", "'; drop table x; --", '{"a": 1, "a": 2}', "x" * 16777216]
    with world.session() as connection, connection.cursor() as cursor:
        for text in texts:
            cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', %s)", (text,))
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload_bytes, key, headers) values ('flights', 'UA', %s, 'k', %s)",
            (bytes(range(256)), '{"trace": "1"}'),
        )
        connection.commit()
    world.transfer_all()
    rows = world.query("analytics", "select payload, payload_bytes, key, headers from relaybox.read_log('flights/2')")
    assert [row[0] for row in rows[:-1]] == texts
    assert (bytes(rows[-1][1]), rows[-1][2:]) == (bytes(range(256)), ("k", {"trace": "1"}))
