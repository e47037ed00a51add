"""A Postgres server that is frozen: its kernel still takes what is sent to it, and nothing answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from relaybox.local.clusters import Cluster
from relaybox.local.processes import descendants


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """The whole server stands still until the block ends."""
    assert cluster.pid is not None
    processes = [cluster.pid, *descendants(cluster.pid)]
    try:
        _signal(processes, signal.SIGSTOP)
        yield
    finally:
        _signal(processes, signal.SIGCONT)


def _signal(processes: Iterable[int], signal_number: signal.Signals) -> None:
    """One that has ended since, as a worker of autovacuum, keeps no other from its signal."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)
