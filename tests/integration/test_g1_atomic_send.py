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


def nested(levels: int) -> str:
    """A JSON object of this many levels."""
    return '{"a": ' * (levels - 1) + "{}" + "}" * (levels - 1)


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
        ("topic, sender, payload, index", "'flights', 'UA', 'x', 0", "index_and_epoch_positive"),
        ("topic, sender, payload, epoch", "'flights', 'UA', 'x', 0", "index_and_epoch_positive"),
        ("topic, sender, payload, index", "'flights', 'UA', 'x', 9223372036854775807", "index_below_the_largest"),
        ("topic, sender, payload, headers", f"'flights', 'UA', 'x', '{nested(65)}'", "headers_nest_at_most_64_levels"),
        ("topic, sender, payload, headers", "'flights', 'UA', 'x', '{\"n\": 1e308}'", "numbers_in_headers_below_1e308"),
        ("topic, sender, payload, clock", "'flights', 'UA', 'x', '[1]'", "clock_is_an_object"),
        (
            "topic, sender, payload, clock",
            "'flights', 'UA', 'x', jsonb_build_object('k', repeat('x', 65536))",
            "clock_is_an_object",
        ),
        (
            "topic, sender, payload, clock",
            "'flights', 'UA', 'x', (select jsonb_object_agg(n, 1) from generate_series(1, 1001) n)",
            "clock_names_at_most_1000_senders",
        ),
        ("topic, sender, payload, clock", f"'flights', 'UA', 'x', '{nested(65)}'", "clock_nests_at_most_64_levels"),
        ("topic, sender, payload, clock", "'flights', 'UA', 'x', '{\"n\": -1e308}'", "numbers_in_clock_below_1e308"),
    ],
)
def test_g1_a_bad_message_is_refused_by_a_constraint_that_says_why(
    world: World, columns: str, values: str, constraint: str
) -> None:
    """What could break a hop can't enter the outbox; the name of the constraint is the reason."""
    with pytest.raises(psycopg2.errors.CheckViolation, match=constraint) as refused:
        world.query("airline", f"insert into relaybox.outbox ({columns}) values ({values})")
    told = refused.value.diag
    assert (told.schema_name, told.table_name, told.constraint_name) == ("relaybox", "outbox", constraint)


def test_g1_a_message_at_every_limit_is_taken(world: World) -> None:
    """The largest values that the rules allow, in all columns at once."""
    world.query(
        "airline",
        f"""
        insert into relaybox.outbox (topic, sender, key, index, epoch, headers, payload, clock) values (
            repeat('t', 48), repeat('s', 48), repeat('k', 200), 9223372036854775806, 2147483647, '{nested(64)}',
            repeat('x', 16777216), '{nested(64)}'
        )
        """,
    )
    assert world.value("airline", "select count(*) from relaybox.outbox") == 1


def test_g1_a_producer_breaks_no_rule_by_operators_of_its_own(world: World) -> None:
    """Its session finds its operators and functions before those of Postgres."""
    world.query(
        "airline",
        """
        create schema own;
        create function own.yes(text, text) returns boolean language sql immutable return true;
        create function own.yes(bigint, bigint) returns boolean language sql immutable return true;
        create function own.yes(integer, integer) returns boolean language sql immutable return true;
        create operator own.~ (leftarg = text, rightarg = text, function = own.yes);
        create operator own.<= (leftarg = integer, rightarg = integer, function = own.yes);
        create operator own.>= (leftarg = integer, rightarg = integer, function = own.yes);
        create function own.length(text) returns integer language sql immutable return 1;
        create function own.octet_length(text) returns integer language sql immutable return 1;
        """,
    )
    for values in ("'Flights!', 'UA', 'k', 1, 'x'", "'flights', 'UA', repeat('k', 201), 1, 'x'", "'flights', 'UA', 'k', 0, 'x'"):
        with world.session("airline") as connection, connection.cursor() as cursor:
            cursor.execute("set search_path = own, pg_catalog")
            with pytest.raises(psycopg2.errors.CheckViolation):
                cursor.execute(f"insert into relaybox.outbox (topic, sender, key, epoch, payload) values ({values})")


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
