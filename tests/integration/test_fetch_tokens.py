"""An acknowledgement belongs to the newest fetch of its lane, whatever its worker is called; every other one is told what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg2
import pytest

from tests.support.streams import STORE, ack, deliver, fetch, nack, stream_positions, token
from tests.support.world import World


@pytest.fixture
def shop(world: World) -> World:
    """Twelve messages of three senders, the subscription `billing`, and a table for effects."""
    deliver(world, 12)
    world.query(STORE, "create table public.effect (stream_position bigint not null)")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    return world


def got(world: World, count: int, options: str = "", subscription: str = "billing") -> tuple[list[int], str]:
    """Stream positions and token of a fetch that is committed by itself."""
    rows = world.query(STORE, f"select stream_position, token from relaybox.fetch(%s, %s{options})", subscription, count)
    assert len({verification for _, verification in rows}) == 1
    return stream_positions(rows), rows[0][1]


def work(world: World, fetched: list[int], verification: str | None, through: int) -> str | None:
    """Work and acknowledgement in one transaction, fetched in another; the SQLSTATE of a refusal, which takes the work back."""
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "insert into public.effect values (%s)",
            [(stream_position,) for stream_position in fetched if stream_position <= through],
        )
        try:
            cursor.execute("select relaybox.ack('billing', %s, %s)", (through, verification))
        except psycopg2.Error as refused:
            connection.rollback()
            return refused.pgcode
        connection.commit()
    return None


def effects(world: World) -> list[int]:
    return stream_positions(world.query(STORE, "select stream_position from public.effect order by stream_position"))


def refusal(world: World, call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[str, str, str]:
    """SQLSTATE, message and hint."""
    with pytest.raises(psycopg2.Error) as refused:
        call(world, *arguments, **options)
    return refused.value.pgcode, str(refused.value.diag.message_primary), str(refused.value.diag.message_hint)


def test_g10_two_processes_with_one_worker_name_do_each_work_once(shop: World) -> None:
    """Both fetch the same; one acknowledges a part, the other one all: her work is refused, and she is told why."""
    first, first_token = got(shop, 6, ", worker => 'w'")
    second, second_token = got(shop, 6, ", worker => 'w'")
    assert first == second == [1, 2, 3, 4, 5, 6]
    assert work(shop, second, second_token, 3) is None
    assert work(shop, first, first_token, 6) == "RB035"
    assert work(shop, [4, 5, 6], second_token, 6) is None
    assert effects(shop) == [1, 2, 3, 4, 5, 6]
    code, said, hint = refusal(shop, lambda world: world.query(STORE, "select relaybox.ack('billing', 6, %s)", first_token))
    assert code == "RB035"
    assert "worker w fetched again at" in said
    assert "both use one worker name: give each its own" in hint


def test_g10_two_clients_of_one_pooled_session_never_share_a_lease(shop: World) -> None:
    """Without a name each transaction is a worker of its own: the second client gets nothing until the lease has ended."""
    with shop.session(STORE, autocommit=True) as pooled, pooled.cursor() as cursor:
        cursor.execute("select stream_position, token from relaybox.fetch('billing', 6)")
        _, first_token = cursor.fetchall()[0]
        cursor.execute("select from relaybox.fetch('billing', 6)")
        assert cursor.fetchall() == []
    assert work(shop, [1, 2, 3], first_token, 3) is None
    assert effects(shop) == [1, 2, 3]


def test_a_transaction_without_a_worker_name_gets_its_own_fetch_again(shop: World) -> None:
    """Also behind a savepoint, which has a number of its own."""
    with shop.session(STORE) as connection, connection.cursor() as cursor:
        for statement in ("savepoint one", "savepoint two"):
            cursor.execute("select stream_position from relaybox.fetch('billing', 3)")
            assert stream_positions(cursor.fetchall()) == [1, 2, 3]
            cursor.execute(statement)


def test_the_rest_of_a_fetch_belongs_to_who_gives_its_token(shop: World) -> None:
    """With lanes and without a name: the lane of the token is the worker's in the next transaction too."""
    shop.query(STORE, "select relaybox.subscribe('wide', 'flights', lanes => 2)")
    rows = shop.query(STORE, "select stream_position, token, lane from relaybox.fetch('wide', 4)")
    again = shop.query(STORE, "select stream_position, lane from relaybox.fetch('wide', 4, %s, %s)", rows[0][0], rows[0][1])
    assert again == [(stream_position, lane) for stream_position, _, lane in rows[1:]]


def test_no_worker_is_named_like_a_transaction(shop: World) -> None:
    code, said, hint = refusal(shop, got, 3, ", worker => 'transaction 12'")
    assert (code, "that of a transaction: transaction 12" in said, "a name of its own" in hint) == ("RB036", True, True)


def test_a_fetch_acknowledged_from_another_session_needs_its_token_only(shop: World) -> None:
    """psql called twice, or a pool: a session with the token may acknowledge, refuse, release, and fetch on."""
    _, verification = got(shop, 3)
    assert work(shop, [1, 2, 3], verification, 2) is None
    rows = shop.query(STORE, "select stream_position, token from relaybox.fetch('billing', 4, 3, %s)", verification)
    assert stream_positions(rows) == [4, 5, 6, 7]
    rows = shop.query(STORE, "select stream_position, token from relaybox.fetch('billing', 4, 5, %s)", rows[0][1])
    assert stream_positions(rows) == [6, 7]
    assert shop.value(STORE, "select relaybox.release('billing', %s)", rows[0][1]) is True


def test_the_fetch_of_this_transaction_needs_no_token(shop: World) -> None:
    """Fetch, work and acknowledgement in one transaction need no token, also behind savepoints and with lanes."""
    shop.query(STORE, "select relaybox.subscribe('wide', 'flights', lanes => 3)")
    for subscription in ("billing", "wide"):
        with shop.session(STORE) as connection, connection.cursor() as cursor:
            cursor.execute("select max(age(xmin)) from relaybox_internal.cursor")  # before the transaction has a number
            cursor.execute("savepoint work")
            cursor.execute("select max(stream_position) from relaybox.fetch(%s, 2)", (subscription,))
            (last,) = cursor.fetchone()
            cursor.execute("release work")
            cursor.execute("select relaybox.ack(%s, %s)", (subscription, last))
            assert cursor.fetchone() == (last,)
            connection.commit()


def test_a_fetch_from_before_a_reload_is_not_taken_for_this_transactions(shop: World) -> None:
    """After a dump and reload another transaction can have the number of the one that fetched. Here the row is loaded even while that
    transaction is open."""
    got(shop, 3)
    with shop.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()::text")
        (number,) = cursor.fetchone()
        shop.query(STORE, "update relaybox_internal.cursor set fetched_in = %s::text::xid8 where token is not null", number)
        with pytest.raises(psycopg2.Error, match="the token is missing, and this transaction has fetched nothing") as refused:
            cursor.execute("select relaybox.ack('billing', 3)")
    assert refused.value.pgcode == "RB033"


def test_an_acknowledgement_without_a_token_is_told_what_to_do(shop: World) -> None:
    """In another transaction than the fetch, after a rollback of the fetch, and with two lanes fetched from."""
    got(shop, 3)
    code, said, hint = refusal(shop, lambda world: world.query(STORE, "select relaybox.ack('billing', 3)"))
    assert (code, said) == (
        "RB033",
        "subscription billing: the token is missing, and this transaction has fetched nothing (a fetch that returns no row counts as none)",
    )
    assert "the token that fetch returned with each message" in hint
    shop.query(STORE, "select relaybox.subscribe('wide', 'flights', lanes => 3)")
    with shop.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("savepoint work")
        cursor.execute("select from relaybox.fetch('wide', 1, only_lane => 1) a, relaybox.fetch('wide', 1, only_lane => 2) b")
        with pytest.raises(psycopg2.Error, match="has fetched from lanes 1 and 2"):
            cursor.execute("select relaybox.ack('wide', 3)")
        connection.rollback()


@pytest.mark.parametrize(
    "given", ["1", "", "a-token", "1-0123", "99-0123456789abcdef", "1-0123456789ABCDEF", "1-0123456789abcdef;"]
)
def test_what_is_no_token_is_told_so(shop: World, given: str) -> None:
    got(shop, 3)
    code, said, hint = refusal(shop, lambda world: world.query(STORE, "select relaybox.ack('billing', 3, %s)", given))
    assert (code, "is no token that fetch returned" in said) == ("RB033", True)
    assert "Give the column token of the fetched message as it is" in hint


def test_a_token_of_a_fetch_that_was_rolled_back_or_of_another_subscription_is_unknown(shop: World) -> None:
    shop.query(STORE, "select relaybox.subscribe('other', 'flights')")
    with shop.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("select min(token) from relaybox.fetch('billing', 3)")
        (undone,) = cursor.fetchone()
        connection.rollback()
    for verification in (undone, got(shop, 3, subscription="other")[1]):
        code, said, hint = refusal(
            shop,
            lambda world, verification=verification: world.query(STORE, "select relaybox.ack('billing', 3, %s)", verification),
        )
        assert (code, "no fetch on record gave the token" in said) == ("RB033", True)
        assert "was rolled back, or another subscription or store gave it" in hint


def test_each_end_of_a_fetch_is_told_apart(shop: World) -> None:
    """Acknowledged already, refused, given back and fetched by another worker, after its lease, and moved by a replay."""
    fetch(shop, 2)
    ack(shop, 2)
    assert (
        "stream position 2 is acknowledged already; the lane is acknowledged through stream position 2"
        in refusal(shop, ack, 2)[1]
    )
    assert (
        "stream position 3 was not in this fetch; the lane is acknowledged through stream position 2" in refusal(shop, ack, 3)[1]
    )
    fetch(shop, 2)
    nack(shop, 3)
    assert "this fetch ended with a nack or release; its other messages come with the next fetch" in refusal(shop, ack, 4)[1]
    fetch(shop, 2)
    shop.query(STORE, "select relaybox.release('billing', %s)", token(shop))
    fetch(shop, 2, worker="b")
    assert "worker b fetched from the lane" in refusal(shop, ack, 4)[1]
    assert "the lane had been given back" in refusal(shop, ack, 4)[1]
    shop.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    code, said, _ = refusal(shop, ack, 4, worker="b")
    assert (code, "a replay, or its end, has put the lane to another stream position" in said) == ("RB035", True)


def test_a_stale_token_refuses_and_gives_back_nothing(shop: World) -> None:
    """nack and release ask for the token as ack does."""
    _, stale = got(shop, 3, ", worker => 'w'")
    _, newest = got(shop, 3, ", worker => 'w'")
    with pytest.raises(psycopg2.Error) as refused:
        shop.query(STORE, "select relaybox.nack('billing', 1, 'no', %s)", stale)
    assert refused.value.pgcode == "RB035"
    assert shop.value(STORE, "select relaybox.release('billing', %s)", stale) is False
    assert shop.value(STORE, "select relaybox.nack('billing', 1, 'no', %s)", newest) is False


def test_a_token_without_a_stream_position_is_refused(shop: World) -> None:
    """A fetch that would acknowledge nothing, though it was given a token, is a slip of its caller."""
    _, verification = got(shop, 3)
    code, said, _ = refusal(
        shop, lambda world: world.query(STORE, "select * from relaybox.fetch('billing', 3, acked_token => %s)", verification)
    )
    assert (code, "acked_token without acked_stream_position" in said) == ("RB036", True)


def test_an_old_snapshot_does_not_see_that_a_token_is_stale_and_changes_nothing(shop: World) -> None:
    """REPEATABLE READ began before the newer fetch: the cursor can't be moved."""
    _, stale = got(shop, 3, ", worker => 'w'")
    with shop.session(STORE) as old, old.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select count(*) from relaybox.subscriptions")
        got(shop, 3, ", worker => 'w'")
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("select relaybox.ack('billing', 3, %s)", (stale,))


def test_an_old_snapshot_does_not_see_the_fetch_of_its_token_and_is_told_to_begin_anew(shop: World) -> None:
    """REPEATABLE READ began before the only fetch; in a new transaction the same token counts, and an unknown one is unknown."""
    with shop.session(STORE) as old, old.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select count(*) from relaybox.subscriptions")
        _, verification = got(shop, 3)
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("select relaybox.ack('billing', 3, %s)", (verification,))
        old.rollback()
        cursor.execute("set transaction isolation level repeatable read")
        with pytest.raises(psycopg2.Error, match="no fetch on record gave the token"):
            cursor.execute("select relaybox.ack('billing', 3, '1-0123456789abcdef')")
        old.rollback()
        cursor.execute("select relaybox.ack('billing', 3, %s)", (verification,))
        assert cursor.fetchone() == (3,)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("ack('billing', 3)", "relaybox.ack('SUBSCRIPTION', STREAM_POSITION, 'TOKEN')."),
        ("nack('billing', 3, 'no')", "relaybox.nack('SUBSCRIPTION', STREAM_POSITION, 'REASON', 'TOKEN')."),
        ("nack('billing', 3, '1-0123456789abcdef')", "'REASON', 'TOKEN'). The reason looks like a token."),
        ("release('billing')", "relaybox.release('SUBSCRIPTION', 'TOKEN')."),
        ("fetch('billing', 3, 3)", "relaybox.fetch('SUBSCRIPTION', COUNT, STREAM_POSITION, 'TOKEN')."),
        ("release('billing', 'x')", "as it is: select relaybox.release('SUBSCRIPTION', 'TOKEN')."),
    ],
)
def test_a_missing_token_is_shown_in_the_call_that_was_made(shop: World, call: str, hint: str) -> None:
    code, _, said = refusal(shop, lambda world: world.query(STORE, f"select relaybox.{call}"))
    assert (code, said.endswith(hint)) == ("RB033", True), said


def extend(world: World, verification: str | None) -> Any:
    return world.value(STORE, "select relaybox.extend_lease('billing', %s) - clock_timestamp()", verification)


def test_a_lease_is_extended_for_work_that_takes_longer(shop: World) -> None:
    """Also once it has ended, as long as nobody else has the lane; the token stays."""
    _, verification = got(shop, 3, ", worker => 'slow'")
    shop.query(
        STORE, "update relaybox_internal.cursor set leased_until = clock_timestamp() - interval '1 s' where worker = 'slow'"
    )
    assert 0 < extend(shop, verification).total_seconds() <= 60
    assert shop.query(STORE, "select from relaybox.fetch('billing', 3, worker => 'other')") == []
    assert shop.value(STORE, "select leased_until > clock_timestamp() from relaybox.lag('billing')")
    assert work(shop, [1, 2, 3], verification, 2) is None
    assert 0 < extend(shop, verification).total_seconds() <= 60
    assert work(shop, [3], verification, 3) is None
    assert effects(shop) == [1, 2, 3]


def test_no_lease_is_extended_for_who_has_none(shop: World) -> None:
    _, verification = got(shop, 3, ", worker => 'slow'")
    shop.query(STORE, "select relaybox.release('billing', %s)", verification)
    assert refusal(shop, extend, verification)[0] == "RB035"
    _, verification = got(shop, 3, ", worker => 'slow'")
    shop.query(STORE, "select relaybox.ack('billing', 3, %s)", verification)
    assert refusal(shop, extend, verification)[0] == "RB035"
    _, verification = got(shop, 3, ", worker => 'slow'")
    shop.query(
        STORE, "update relaybox_internal.cursor set leased_until = clock_timestamp() - interval '1 s' where worker = 'slow'"
    )
    got(shop, 3, ", worker => 'other'")
    assert refusal(shop, extend, verification)[0] == "RB035"
    for unknown in (None, "", "1-0000000000000000"):
        assert refusal(shop, extend, unknown)[0] == "RB033"
