"""How long tests wait: seconds of a quiet machine, times how much slower this one is now.

A deadline here ends a wait that will never end; it says nothing of Relaybox. What Relaybox promises in seconds (a lease, a time limit
of a slice) is written as a plain number where it is tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

QUIET_SECONDS = 0.12
"""What _work() takes on a quiet machine: 0.10 s of CPU, the rest for the disk."""

MOST = 30.0
"""No wait becomes longer than this many times its deadline: a test that hangs is ended."""

_RENEWED_SECONDS = 60.0


def patience(seconds: float) -> float:
    """So long one waits now for what takes at most `seconds` on a quiet machine."""
    return seconds * slowness()


class Deadline:
    """The end of a wait. When it is reached the machine is measured again: it may have become slower since."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """There was progress: the wait begins anew."""
        self._began = time.monotonic()
        self._ends = self._began + patience(self._seconds)

    def is_over(self) -> bool:
        if time.monotonic() <= self._ends:
            return False
        self._ends = max(self._ends, self._began + self._seconds * _measure())
        return time.monotonic() > self._ends

    def __str__(self) -> str:
        return f"{self._ends - self._began:.0f} s ({self._seconds:g} s on a quiet machine)"


class _Machine:
    """What was measured last."""

    slowness = 0.0
    measured_at = 0.0


def slowness() -> float:
    """How many times longer than on a quiet machine something takes; at least 1. Measured at the start, and once a minute."""
    if not _Machine.slowness or time.monotonic() - _Machine.measured_at > _RENEWED_SECONDS:
        return _measure()
    return _Machine.slowness


def _measure() -> float:
    """By work, and by how many others want a core: a short piece of work comes before the long ones of others."""
    began = time.monotonic()
    _work()
    _Machine.measured_at = time.monotonic()
    by_work = (_Machine.measured_at - began) / QUIET_SECONDS
    by_load = os.getloadavg()[0] / (os.cpu_count() or 1)
    _Machine.slowness = min(MOST, max(1.0, by_work, by_load))
    return _Machine.slowness


def _work() -> None:
    """What tests are made of: a computation, a process, and something that is on disk afterwards."""
    sum(number * number for number in range(1_000_000))
    subprocess.run([sys.executable, "-I", "-c", "import json, socket, subprocess"], check=True)
    with tempfile.TemporaryFile() as file:
        for _ in range(5):
            file.write(b"x" * 8192)
            file.flush()
            os.fsync(file.fileno())
