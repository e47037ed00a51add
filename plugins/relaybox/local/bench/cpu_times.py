"""CPU times of a benchmark: of the stores, of the JVM, of Python, and of all that is no store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relaybox.local.processes import children, descendants, process_cpu_seconds, tree_cpu_seconds, trees_cpu_seconds

if TYPE_CHECKING:
    from relaybox.local.clusters import Cluster

PARTS = ("source", "destination", "clients")
"""Of a measurement between two stores: their servers, and whoever moves the messages (this process, its workers, psql, a JVM)."""


def read_parts(clusters: Mapping[str, Cluster]) -> dict[str, float]:
    """CPU seconds of each of PARTS until now, sessions and programs that have ended included.

    Args:
        clusters: running ones, started by this process, of the names `source` and `destination`.
    """
    servers = [clusters[part].pid or 0 for part in PARTS[:2]]
    source, destination, everything = trees_cpu_seconds([*servers, os.getpid()])
    return dict(zip(PARTS, (source, destination, everything - source - destination), strict=True))


def since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """What each part has used between two readings."""
    return {part: now[part] - before[part] for part in now}


@dataclass(frozen=True)
class CpuSeconds:
    """Of a part of a run: of the stores, of the JVM, and of Python, this process and the workers."""

    stores: float
    jvm: float
    python: float


@dataclass(frozen=True)
class CpuTimes:
    """How much CPU time the processes below this one have used until now.

    Attributes:
        stores: of clusters, with the sessions that have ended.
        jvm: of the JVM alone.
        python: by process. A worker that Spark ends after a minute without work takes its time with it: nobody waits for it.
    """

    stores: float
    jvm: float
    python: Mapping[int, float]

    @classmethod
    def read(cls) -> CpuTimes:
        """Reads the times of this process and of all below it."""
        own = os.getpid()
        names = {pid: _name(pid) for pid in children(own)}
        jvms = [pid for pid, name in names.items() if name == "java"]
        workers = [pid for jvm in jvms for pid in descendants(jvm)]
        return cls(
            sum(tree_cpu_seconds(pid) for pid, name in names.items() if name == "postgres"),
            sum(process_cpu_seconds(pid) for pid in jvms),
            {pid: process_cpu_seconds(pid) for pid in (own, *workers)},
        )

    def since(self, before: CpuTimes) -> CpuSeconds:
        """What was used between the two."""
        python = sum(seconds - before.python.get(pid, 0.0) for pid, seconds in self.python.items())
        return CpuSeconds(self.stores - before.stores, self.jvm - before.jvm, python)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended
