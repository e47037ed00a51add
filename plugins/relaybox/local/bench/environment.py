"""The circumstances of a benchmark: the machine, the versions and the settings."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from relaybox import __version__

if TYPE_CHECKING:
    from relaybox.local.bench.stores import BenchStores


def describe_environment(stores: BenchStores) -> dict[str, Any]:
    """The machine, the versions and the settings, for the JSON of a report."""
    return {
        "relaybox": __version__,
        "python": platform.python_version(),
        "cores": core_count(),
        "machine": platform.machine(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "postgres": stores.postgres(),
    }


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
