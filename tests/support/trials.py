"""Trials of the route delays: version 1 has sent, version 2 is tried, as runs do it but without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from relaybox.spark.derivations.ledger import Attempt, open_ledger
from relaybox.spark.derivations.publishing import Sending, send
from relaybox.spark.derivations.source import Source, load_source
from relaybox.spark.derivations.trials import TrialComparison, TrialLedger, open_trials
from tests.support.derivations import HERE, ROUTE, STORE, DerivedWorld
from tests.support.streams import STREAM
from tests.support.world import World

Row = dict[str, Any]
TWO = {"version": 2, "with": f"{HERE}:twos"}


def with_next(world: World) -> DerivedWorld:
    """A world whose route delays has a next version."""
    delays = DerivedWorld(world)
    delays.configure(**{"with": f"{HERE}:copies", "next": TWO})
    world.register()
    return delays


def sending(attempt: Attempt, *, version: int = 1, is_trial: bool = False) -> Sending:
    ends = (attempt.firsts[0], attempt.lasts[-1])
    return Sending(
        STORE, ROUTE, version, STREAM, ROUTE, (ROUTE,), attempt.derivation_id, attempt.attempt, attempt.token, *ends, is_trial
    )


def late(position: int) -> list[Row]:
    """What version 1 makes of a message."""
    return [{"key": f"k{position % 3}", "payload": f"late m{position}"}]


def batches(attempt: Attempt, make: Callable[[int], Sequence[Row]]) -> list[pa.RecordBatch]:
    positions = [one for first, last in zip(attempt.firsts, attempt.lasts, strict=True) for one in range(first, last + 1)]
    rows = [{"stream_position": one, **row} for one in positions for row in make(one)]
    return [pa.RecordBatch.from_pylist(rows)] if rows else []


def derive_all(delays: DerivedWorld, max_count: int = 4, make: Callable[[int], Sequence[Row]] = late) -> None:
    """As a run of the derivation, at the version that the store has."""
    with open_ledger(delays.route, delays.derivation) as opened:
        opened.begin(load_source(opened.derivation, route=ROUTE))
        while attempt := opened.begin_attempt(max_count, "test"):
            send(sending(attempt, version=opened.derivation.version), batches(attempt, make))


def source(delays: DerivedWorld) -> Source:
    return load_source(delays.route.require_next(), route=ROUTE)


@contextmanager
def trial(delays: DerivedWorld, start: str | None = None, through: str | None = None) -> Iterator[TrialLedger]:
    """Of a trial that has begun."""
    with open_trials(delays.route) as opened:
        opened.begin(source(delays), start=start, through=through, begun_by="test")
        yield opened


def try_all(
    delays: DerivedWorld,
    make: Callable[[int], Sequence[Row]] = late,
    start: str | None = None,
    through: str | None = None,
    max_count: int = 4,
) -> None:
    """As a run of the trial, to its end."""
    with trial(delays, start, through) as opened:
        while attempt := opened.begin_attempt(max_count, "test"):
            send(sending(attempt, version=2, is_trial=True), batches(attempt, make))


def fail_then_try(delays: DerivedWorld) -> None:
    with trial(delays) as opened:
        attempt = opened.begin_attempt(4, "test")
        assert attempt is not None
        opened.fail(attempt, "a reason", dead_letter=False)
    try_all(delays)


def promote(delays: DerivedWorld, *, republish: bool = False) -> int:
    with open_trials(delays.route) as opened:
        return opened.promote(opened.newest_trial(), source(delays), republish=republish, promoted_by="test", reason="better")


def drop(delays: DerivedWorld) -> None:
    with open_trials(delays.route) as opened:
        opened.drop(dropped_by="test", reason="worse")


def compare(delays: DerivedWorld) -> TrialComparison:
    with open_trials(delays.route) as opened:
        return opened.compare(sample_count=10)


def tried(delays: DerivedWorld) -> list[str]:
    query = "select payload from relaybox_internal.derivation_trial_message order by seq"
    return [payload for (payload,) in delays.world.query(STORE, query)]


def attempts(delays: DerivedWorld) -> list[tuple[Any, ...]]:
    query = (
        "select state, first_stream_position, last_stream_position, derived_count "
        "from relaybox_internal.derivation_trial_attempt order by trial_id, attempt"
    )
    return delays.world.query(STORE, query)


def trials(delays: DerivedWorld) -> list[tuple[Any, ...]]:
    return delays.world.query(STORE, "select version, state, reason from relaybox_internal.derivation_trial order by trial_id")


def versions(delays: DerivedWorld) -> list[int]:
    return [
        version for (version,) in delays.world.query(STORE, "select version from relaybox_internal.derivation order by version")
    ]


def counts(found: TrialComparison) -> dict[str, int]:
    return {difference: found.count(difference) for difference in ("equal", "changed", "only_old", "only_new")}
