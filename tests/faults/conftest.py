"""Two long-living clusters that get the faults, with a proxy in front of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.sites import Clusters, running_clusters
from tests.support.memory import fast_temporary_directory


@pytest.fixture(scope="session")
def sides() -> Iterator[Clusters]:
    """`source` and `destination`; killed with SIGKILL, never with the power, so memory keeps what a disk would."""
    with fast_temporary_directory("cells") as directory, running_clusters(directory, segment_rows=100) as sides:
        yield sides


@pytest.fixture
def cell_directory() -> Iterator[Path]:
    """For the histories and drivers of one cell: hundreds of small durable writes."""
    with fast_temporary_directory("cell") as directory:
        yield directory / "cell"
