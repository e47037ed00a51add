"""Messages of senders that number them, and the stream that they become."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cli import Run, invoke
from tests.support.world import World


def declare(world: World, *senders: str, kind: str = "gapless") -> None:
    for sender in senders:
        world.query("airline", "select relaybox.declare_sender(%s, %s)", sender, kind)


def send_numbered(
    world: World, sender: str, *numbers: int, epoch: int = 1, payload: str = "{sender}{index}", clock: str | None = None
) -> None:
    """One transaction per message, in the order given."""
    for index in numbers:
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, epoch, index, payload, clock) values ('flights', %s, %s, %s, %s, %s)",
            *(sender, epoch, index, payload.format(sender=sender, index=index), clock),
        )


def stream(world: World, store: str = "hub") -> list[str]:
    """Payloads in the order of stream positions, which must be 1, 2, 3 ..."""
    rows = world.query(store, "select stream_position, payload from relaybox.read_stream('flights', 0, 1000000)")
    assert [stream_position for stream_position, _ in rows] == list(range(1, len(rows) + 1))
    return [payload for _, payload in rows]


def reasons(world: World, store: str = "hub") -> list[tuple[int, str]]:
    return world.query(store, "select log_position, reason from relaybox_internal.dead_letter order by log_position")


def send_caused(world: World, sender: str, index: int, clock: dict[str, Any]) -> None:
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, epoch, index, payload, clock) values ('flights', %s, 1, %s, %s, %s)",
        *(sender, index, f"{sender}{index}", json.dumps(clock)),
    )


def skip(*arguments: str, reason: str = "lost by hand", exit_code: int = 0) -> Run:
    done = invoke("skip", "flights", *arguments, "--reason", reason)
    assert done.exit_code == exit_code, done.stderr
    return done
