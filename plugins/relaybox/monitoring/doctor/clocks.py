"""Clocks: of a store against this machine's, and of two stores against each other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox.monitoring.doctor.check import Diagnosis, Examined, ok, warning

if TYPE_CHECKING:
    from relaybox.routes import Routes
    from relaybox.stores.sessions.store_session import StoreSession

WRONG_SECONDS = 1.0
"""Clocks that follow NTP differ by milliseconds."""

_ATTEMPTS = 5
_SYNCHRONISE = "Let NTP set the clocks (chronyc tracking, timedatectl). Lags, retention and replays by time are wrong until then."


@dataclass(frozen=True)
class ClockReading:
    """How far a server's clock is ahead of this machine's, give or take half the round trip in which it was read."""

    ahead_seconds: float
    uncertainty_seconds: float

    def differs_from(self, other: ClockReading) -> bool:
        """Whether they certainly differ by more than WRONG_SECONDS."""
        surely = abs(self.ahead_seconds - other.ahead_seconds) - self.uncertainty_seconds - other.uncertainty_seconds
        return surely > WRONG_SECONDS


THIS_MACHINE = ClockReading(0.0, 0.0)


def read_clock(session: StoreSession) -> ClockReading:
    """Reads the server's clock several times; the shortest round trip counts."""
    readings = []
    for _ in range(_ATTEMPTS):
        began_at, began = time.time(), time.monotonic()
        server = float(session.value("select extract(epoch from clock_timestamp())::float8"))
        half = (time.monotonic() - began) / 2
        readings.append(ClockReading(server - (began_at + half), half))
    return min(readings, key=lambda one: one.uncertainty_seconds)


def check_clock(examined: Examined) -> Iterator[Diagnosis]:
    """The store's clock agrees with that of this machine."""
    clock = examined.clock
    said = f"Its clock is {_difference(clock.ahead_seconds)} that of this machine (± {clock.uncertainty_seconds:.3f} s)."
    yield warning(said, _SYNCHRONISE) if clock.differs_from(THIS_MACHINE) else ok(said)


def compare_clocks(routes: Routes, clocks: Mapping[str, ClockReading]) -> Iterator[tuple[str, Diagnosis]]:
    """The clocks of the two stores of each hop, for the destination; stores without a reading are left out."""
    pairs = dict.fromkeys((hop.source.name, hop.destination.name) for hop in routes.hops)
    for source, destination in pairs:
        if source == destination or source not in clocks or destination not in clocks:
            continue
        ahead = clocks[destination].ahead_seconds - clocks[source].ahead_seconds
        said = f"Its clock is {_difference(ahead)} that of {source}, from which a hop arrives."
        yield destination, warning(said, _SYNCHRONISE) if clocks[destination].differs_from(clocks[source]) else ok(said)


def _difference(ahead_seconds: float) -> str:
    return f"{abs(ahead_seconds):.3f} s {'ahead of' if ahead_seconds >= 0 else 'behind'}"
