"""The driver of `relaybox bench growth`, a process of its own: moves what waits on a hop whenever it is told to, and says its memory.

A line on stdin is one transfer, and one line of JSON on stdout is its answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relaybox.errors import StackFailed
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.runners import RUNNERS
from relaybox.local.processes import descendants
from relaybox.routes import load_routes


@dataclass(frozen=True)
class Driven:
    """One transfer, and the largest resident memory until then, in MB: of this process, of the JVM, of the largest worker of Spark."""

    rows: int
    batches: int
    seconds: float
    driver_mb: float
    jvm_mb: float
    worker_mb: float


class GrowthDriver:
    """The parent's side of the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self) -> None:
        """Tells it to move what waits; `finish` waits for the answer."""
        if self._process.stdin is not None:
            self._process.stdin.write("move\n")
            self._process.stdin.flush()

    def finish(self) -> Driven:
        """The answer.

        Raises:
            StackFailed: the process ended.
        """
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise StackFailed(f"the driver (pid {self._process.pid}) ended with {self._process.wait()}; its error is above.")
        return Driven(**json.loads(line))

    def move(self) -> Driven:
        self.begin()
        return self.finish()


@contextmanager
def growth_driver(hop: str, *, config: Path, runner: str, batch_rows: int) -> Iterator[GrowthDriver]:
    """A driver that makes batches of at most this many messages; it ends with the block."""
    command = [sys.executable, "-m", __name__, hop, str(config), runner, str(batch_rows)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield GrowthDriver(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()


def _serve(hop_name: str, config: str, runner: str, batch_rows: str) -> None:
    hop = load_routes(Path(config)).hop(hop_name)
    limits = replace(hop.limits, batch_rows=int(batch_rows), slice_rows=min(hop.limits.slice_rows, int(batch_rows)))
    with RUNNERS[runner]() as slice_runner:
        for _ in sys.stdin:
            moved = transfer_hop(replace(hop, limits=limits), slice_runner, recorded_by="relaybox bench growth")
            answer = {"rows": moved.row_count, "batches": moved.batch_count, "seconds": moved.duration_seconds, **_peaks()}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _peaks() -> dict[str, Any]:
    below = descendants(os.getpid())
    jvms = [pid for pid in below if _status(pid).get("Name") == "java"]
    workers = [pid for jvm in jvms for pid in descendants(jvm)]
    return {
        "driver_mb": _peak_mb(os.getpid()),
        "jvm_mb": max(map(_peak_mb, jvms), default=0.0),
        "worker_mb": max(map(_peak_mb, workers), default=0.0),
    }


def _peak_mb(pid: int) -> float:
    return int(_status(pid).get("VmHWM", "0 kB").split()[0]) / 1024


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}  # it has ended
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


if __name__ == "__main__":
    _serve(*sys.argv[1:])
