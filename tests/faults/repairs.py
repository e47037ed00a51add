"""What an operator does about a hop that stopped with G11: attest what lost nothing, reanchor the rest, upstream first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from relaybox import errors
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.routes import Hop
from tests.faults.delivery import Delivered
from tests.support.world import World

BY = "the operator of a test"


@dataclass(frozen=True)
class Repair:
    """What was done: stores attested, hops reanchored."""

    attested: tuple[str, ...]
    reanchored: tuple[str, ...]


def repair(world: World) -> Repair:
    """Brings the route to its end as the messages of its errors say. Raises what can't be repaired so."""
    attested = tuple(dict.fromkeys(hop.source.name for hop in world.route.hops if _attest(world, hop)))
    reanchored = tuple(hop.name for hop in world.route.hops if _run(world, hop))
    world.settle_all()
    return Repair(attested, reanchored)


def _attest(world: World, hop: Hop) -> bool:
    try:
        return attest_store(hop.source, world.routes, recorded_by=BY, reason="recovered").changed
    except errors.HistoryLost:
        return False


def _run(world: World, hop: Hop) -> bool:
    """Transfers the hop; reanchors it first if it does not go on otherwise."""
    try:
        world.transfer(hop)
    except (errors.HistoryLost, errors.ContentDiffers):
        reanchor_hop(hop, world.routes, recorded_by=BY, reason="recovered", dry_run=False)
        world.transfer(hop)
        return True
    return False


def unlisted_ghosts(world: World, now: Delivered) -> Iterator[str]:
    """Each message that a log has and the outbox lost is listed at the hop's source, and nothing else is."""
    for hop in world.route.hops[:1]:
        log_positions = {
            log_position
            for (log_position,) in world.query(
                hop.source.name, 'select "log_position" from relaybox_internal.ghost where hop = %s', hop.name
            )
        }
        listed = _at(now.logs[hop.name], log_positions)
        ghosts = now.ghosts(hop.name)
        if listed != ghosts:
            yield f"{hop.name}: {len(ghosts)} ghosts, {len(listed)} listed"


def _at(log: Sequence[str], log_positions: set[int]) -> list[str]:
    return [payload for log_position, payload in enumerate(log, start=1) if log_position in log_positions]
