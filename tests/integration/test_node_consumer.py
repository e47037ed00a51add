"""A consumer in another language: a Node program without any code of Relaybox subscribes, fetches, acknowledges and replays."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.node_programs import run_node
from tests.support.world import World

PROGRAM = Path(__file__).parents[2] / "docs" / "examples" / "consume.js"


def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run_node(PROGRAM, *arguments, check=check)


def test_g10_a_node_program_consumes_and_replays_with_every_effect_once(world: World) -> None:
    """Ten messages over a real hop; the example's loop, twice; then a replay of it."""
    world.send_many(10)
    world.transfer()
    world.query("hub", "create table public.effect (n serial, stream_position bigint, payload text)")
    assert run("billing", "flights").stdout.splitlines() == [f"{n}: m{n}" for n in range(1, 11)]
    assert run("billing", "flights").stdout == ""
    assert world.query("hub", "select stream_position, payload from public.effect order by n") == [
        (n, f"m{n}") for n in range(1, 11)
    ]
    assert world.query("hub", "select done_stream_position, stream_positions_behind from relaybox.lag('billing')") == [(10, 0)]
    world.query("hub", "truncate public.effect")
    assert run("billing", "flights", "6").stdout.splitlines() == [f"{n} again: m{n}" for n in range(6, 11)]
    assert world.query("hub", "select payload from public.effect order by n") == [(f"m{n}",) for n in range(6, 11)]


def test_a_node_program_is_denied_in_words_and_by_sqlstate(world: World) -> None:
    """An error of the database ends its transaction: neither effect nor acknowledgement is there."""
    denied = run("billing", "bookings", check=False)
    assert denied.returncode == 1
    assert "RB032: there is no stream and no topic bookings in this store. Streams here: flights (flights)." in denied.stderr
    world.send("a")
    world.transfer()
    failed = run("billing", "flights", check=False)  # there is no table public.effect
    assert failed.stderr.startswith("42P01: ")
    assert world.value("hub", "select done_stream_position from relaybox.subscriptions") == 0
