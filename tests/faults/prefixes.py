"""One store of a recorded run is recovered to a prefix of its WAL, the others to a moment of the run; then all go on."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relaybox import errors
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.verification.route_verification import verify_route
from tests.faults.delivery import (
    Delivered,
    confirmed_too_early,
    disordered,
    doubled,
    not_dense,
    overwritten,
    read_delivered,
    undelivered,
)
from tests.faults.recorded_run import DATABASE, Moment, Recording
from tests.faults.repairs import Repair, repair, unlisted_ghosts
from tests.faults.wal_copies import ask, lsn_text, recover, recovered_through
from tests.support.world import STORES, World

LONGEST_RECORD_BYTES = 64 * 1024
LOOKS_BACK_MOMENTS = 8
HISTORY_LOST = (errors.HistoryLost, errors.ContentDiffers)
NEW = tuple(f"new-{number}" for number in range(1, 4))


@dataclass(frozen=True)
class Prefix:
    """What a store has left: its WAL below `lsn`, while the others are as they were at `moment`.

    Attributes:
        number: among the prefixes of its moment.
        store: the store that loses its WAL.
        moment: number of the recording's moment.
        lsn: first byte that is lost.
        below: the cut is below what was on disk at the moment, so something acknowledged may be lost; otherwise a power loss.
        promote: recovered on a new timeline, as a promoted standby.
    """

    number: int
    store: str
    moment: int
    lsn: int
    below: bool
    promote: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a prefix.

    Attributes:
        recovered: where the last replayed record begins: it shows that the cut was hit.
        lost_acknowledged: messages (source) or published positions (destination) that were acknowledged and are gone.
        stopped: the G11 errors, in the words that the operator reads; empty: everything continued.
        attested: stores that the repair attested.
        reanchored: hops that the repair reanchored.
        ghosts: messages that a log holds and the source lost.
        violations: what nobody may ever see; empty: fine.
    """

    prefix: Prefix
    step: str
    recovered: str
    lost_acknowledged: int
    stopped: tuple[str, ...]
    attested: tuple[str, ...]
    reanchored: tuple[str, ...]
    ghosts: int
    violations: tuple[str, ...]

    @property
    def document(self) -> dict[str, Any]:
        return {**asdict(self), "prefix": {**asdict(self.prefix), "lsn": lsn_text(self.prefix.lsn)}}


def choose_prefixes(recording: Recording, store: str, *, count: int, seed: int) -> list[Prefix]:
    """`count` prefixes of one moment, half of them below an acknowledged point."""
    chance = random.Random(seed)
    moment = chance.randrange(1, len(recording.moments))
    now = recording.moments[moment].wal[store]
    earliest = recording.moments[0].wal[store].inserted
    recent = recording.moments[max(0, moment - LOOKS_BACK_MOMENTS)].wal[store].inserted
    prefixes = []
    for number in range(count):
        below = number % 2 == 1
        if below:
            lowest = earliest if number % 4 == 1 else recent
            lsn = chance.randrange(min(lowest, now.flushed - 1), now.flushed)
        else:
            lsn = chance.randint(now.flushed, now.inserted)
        prefixes.append(Prefix(number, store, moment, lsn, below, promote=number % 3 == 2))
    return prefixes


@contextmanager
def others_at(recording: Recording, directory: Path, *, store: str, moment: int) -> Iterator[Mapping[str, Cluster]]:
    """The other stores, with everything that they had at a moment of the run."""
    with ExitStack() as stack:
        others = {}
        for other in STORES:
            if other != store:
                lsn = recording.moments[moment].wal[other].inserted
                others[other] = recover(recording.bases[other], directory / f"{other}-other", lsn=lsn, promote=False)
                stack.callback(others[other].remove)
        yield others


def try_prefix(recording: Recording, directory: Path, others: Mapping[str, Cluster], prefix: Prefix) -> Outcome:
    """Recovers the prefix, lets everything go on, and checks it. `others` are left as they were."""
    with ExitStack() as stack:
        copy = recover(recording.bases[prefix.store], directory / f"{prefix.store}-cut", lsn=prefix.lsn, promote=prefix.promote)
        stack.callback(copy.remove)
        services = {prefix.store: copy.parameters(DATABASE)}
        for store, cluster in others.items():
            cell = f"cell_{prefix.number}"
            ask(cluster, f"create database {cell} template {DATABASE}")
            services[store] = cluster.parameters(cell)
        write_service_file(directory / "services.conf", services)
        return _judge(World(directory / "relaybox.yaml"), recording.moments[prefix.moment], recording, prefix, copy)


def _judge(world: World, moment: Moment, recording: Recording, prefix: Prefix, copy: Cluster) -> Outcome:
    before = read_delivered(world)
    recovered = recovered_through(copy)
    lost = _lost_acknowledged(before, world, moment, recording, prefix)
    world.send(*NEW, sender="new")
    stopped, violations = _go_on(world)
    now = read_delivered(world)
    violations += [*overwritten(before, now), *doubled(now), *disordered(now), *not_dense(world)]
    if not prefix.lsn - LONGEST_RECORD_BYTES <= recovered <= prefix.lsn:
        violations.append(f"recovered through {lsn_text(recovered)}, cut at {lsn_text(prefix.lsn)}")
    if not prefix.below and lost:
        violations.append(f"a power loss took {lost} acknowledged messages")
    repaired = Repair((), ())
    if not stopped:
        violations += _silent(world, now)
    else:
        if not prefix.below and not prefix.promote:
            violations.append(f"stopped although nothing was lost: {stopped[0]}")
        repaired = repair(world)
        violations += _unrepaired(world, now)
    return Outcome(
        prefix=prefix,
        step=moment.step,
        recovered=lsn_text(recovered),
        lost_acknowledged=lost,
        stopped=tuple(stopped),
        attested=repaired.attested,
        reanchored=repaired.reanchored,
        ghosts=len({ghost for hop in now.logs for ghost in now.ghosts(hop)}),
        violations=tuple(violations),
    )


def _go_on(world: World) -> tuple[list[str], list[str]]:
    """Runs both hops and their confirmations once more: what stopped with G11, and what failed in any other way."""
    stopped, failed = [], []
    for hop in world.route.hops:
        try:
            world.transfer(hop)
        except HISTORY_LOST as error:
            stopped.append(str(error))
            if len(set(re.findall(r"\d+", str(error).replace(hop.name, "")))) < 2:
                failed.append(f"the numbers of both sides are not in: {error}")
        except errors.RelayboxError as error:
            failed.append(f"{type(error).__name__}: {error}")
    if not stopped:
        world.settle_all()
    return stopped, failed


def _silent(world: World, now: Delivered) -> Iterator[str]:
    """Everything went on: then nothing may be lost, unknown or confirmed too early, and `verify` agrees."""
    yield from undelivered(now)
    yield from confirmed_too_early(world)
    for hop in now.logs:
        if ghosts := now.ghosts(hop):
            yield f"{hop}: {len(ghosts)} messages that the source lost, and no word about them"
    outcome = verify_route(world.route).outcome
    if outcome != "delivered":
        yield f"verify says {outcome}"


def _unrepaired(world: World, stopped: Delivered) -> Iterator[str]:
    """After the repair every message that still exists is everywhere, once, in order; what was published stands; ghosts are listed."""
    now = read_delivered(world)
    found = [*overwritten(stopped, now), *undelivered(now), *doubled(now), *disordered(now), *not_dense(world)]
    found += [*confirmed_too_early(world), *unlisted_ghosts(world, now)]
    outcome = verify_route(world.route).outcome
    if outcome != "delivered":
        found.append(f"verify says {outcome}")
    yield from (f"after the repair: {violation}" for violation in found)


def _lost_acknowledged(before: Delivered, world: World, moment: Moment, recording: Recording, prefix: Prefix) -> int:
    if prefix.store == STORES[0]:
        return len(set(recording.acknowledged[: moment.acknowledged]) - set(before.sent))
    lost = 0
    for hop in world.route.hops:
        if hop.destination.name == prefix.store:
            confirmed = world.value(
                hop.source.name,
                "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = %s and state = 'received'",
                hop.name,
            )
            lost += max(0, confirmed - len(before.logs[hop.name]))
    return lost
