"""A derivation of the route delays without Spark: its steps in the store, as the driver and a task of it take them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from relaybox.spark.derivations.ledger import Attempt, Ledger, open_ledger
from relaybox.spark.derivations.publishing import Sending, send
from relaybox.spark.derivations.source import load_source
from tests.support.derivations import ROUTE, STORE, DerivedWorld
from tests.support.streams import STREAM


@contextmanager
def ledger(delays: DerivedWorld) -> Iterator[Ledger]:
    """Of a derivation that has begun."""
    with open_ledger(delays.route, delays.derivation) as opened:
        opened.begin(load_source(delays.derivation, route=ROUTE))
        yield opened


def begin(opened: Ledger, max_count: int) -> Attempt:
    """An attempt that has messages."""
    attempt = opened.begin_attempt(max_count, "test")
    assert attempt is not None
    return attempt


def sending(attempt: Attempt, version: int = 1) -> Sending:
    return Sending(
        STORE,
        ROUTE,
        version,
        STREAM,
        ROUTE,
        (ROUTE,),
        attempt.derivation_id,
        attempt.attempt,
        attempt.token,
        attempt.firsts[0],
        attempt.lasts[-1],
    )


def positions(attempt: Attempt) -> list[int]:
    """The stream positions of an attempt."""
    return [one for first, last in zip(attempt.firsts, attempt.lasts, strict=True) for one in range(first, last + 1)]


def rows(attempt: Attempt, prefix: str = "late ") -> list[pa.RecordBatch]:
    """What the function copies() makes of the messages m1, m2 ..., but for the keys."""
    causes = positions(attempt)
    return [pa.RecordBatch.from_pydict({"stream_position": causes, "payload": [f"{prefix}m{one}" for one in causes]})]


def derive_all(delays: DerivedWorld, max_count: int = 4) -> None:
    with ledger(delays) as opened:
        while attempt := opened.begin_attempt(max_count, "test"):
            send(sending(attempt), rows(attempt))
