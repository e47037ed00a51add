"""A consumer that knows nothing but SQL: psql subscribes, fetches, acknowledges, refuses and replays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from relaybox.local.clusters import postgres_binaries
from tests.support.patience import patience
from tests.support.world import World

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "consume.sql"


def psql(*arguments: str, check: bool = True, login: str = "") -> subprocess.CompletedProcess[str]:
    """One psql, connected by service like every consumer."""
    return subprocess.run(
        [
            str(postgres_binaries() / "psql"),
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-v",
            "VERBOSITY=verbose",
            f"service=hub {login}",
            *arguments,
        ],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=check,
        timeout=patience(60),
    )


def command(sql: str) -> str:
    return psql("-c", sql).stdout.strip()


def turns(login: str = "") -> list[int]:
    """Runs the example until nothing comes; what each turn got."""
    counts = []
    while count := int(psql("-v", "subscription=billing", "-v", "worker=script-1", "-f", str(SCRIPT), login=login).stdout):
        counts.append(count)
    return counts


def test_g10_psql_scripts_consume_and_replay_with_every_effect_once(world: World) -> None:
    """Ten messages over a real hop; the example's loop; then a replay of it."""
    world.send_many(10)
    world.transfer()
    command("create table public.effect (n serial, stream_position bigint, payload text)")
    assert command("select relaybox.subscribe('billing', 'flights')") == "1"
    assert turns() == [4, 4, 2]
    assert command("select string_agg(payload, ' ' order by n) from public.effect") == " ".join(f"m{n}" for n in range(1, 11))
    assert command("select done_stream_position, stream_positions_behind from relaybox.lag('billing')") == "10|0"
    command("truncate public.effect")
    assert command("select first_stream_position, message_count from relaybox.replay('billing', '6', 'once more')") == "6|5"
    assert turns() == [4, 1]
    assert command("select string_agg(payload, ' ' order by n) from public.effect") == "m6 m7 m8 m9 m10"


def test_the_example_needs_no_more_rights_than_a_consumers(world: World) -> None:
    """A login that is a relaybox_consumer and writes into its own table, where PUBLIC may make no temporary tables."""
    world.send_many(5)
    world.transfer()
    login = "psql_consumer"
    command(f"create role {login} login password 'secret' in role relaybox_consumer")
    try:
        command(f"create table public.effect (stream_position bigint, payload text); grant insert on public.effect to {login}")
        command("select relaybox.subscribe('billing', 'flights')")
        command(f"revoke temporary on database {command('select current_database()')} from public")
        assert turns(f"user={login} password=secret") == [4, 1]
        assert command("select string_agg(payload, ' ' order by stream_position) from public.effect") == "m1 m2 m3 m4 m5"
        assert command("select done_stream_position, stream_positions_behind from relaybox.lag('billing')") == "5|0"
    finally:
        command(f"drop owned by {login}; drop role {login}")


def test_psql_is_denied_in_words_and_by_sqlstate(world: World) -> None:
    denied = psql("-c", "select relaybox.ack('billing', 1)", check=False)
    assert denied.returncode != 0
    assert "RB031: there is no subscription billing in this store" in denied.stderr
