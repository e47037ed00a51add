"""Two long-living clusters that get the faults, with a proxy in front of each; and stores with small segments, for state machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from tests.faults.change_machine import SEGMENT_ROWS
from tests.faults.restores import Databases, MakeWorld
from tests.faults.sites import Clusters, running_clusters
from tests.faults.stores import UNDISTURBED
from tests.support.memory import fast_temporary_directory
from tests.support.world import World


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


@pytest.fixture(scope="session")
def small(make_template: Callable[[Callable[[World], None]], str]) -> str:
    """Databases of stores without messages whose segments have four rows."""
    return make_template(lambda world: world.cut_small_segments(SEGMENT_ROWS))


@pytest.fixture
def make_small(
    clusters: Mapping[str, Cluster], small: str, make_world: Callable[[str], AbstractContextManager[World]]
) -> MakeWorld:
    """Copies of them, as often as a test wants them, in sessions that no setting of a store disturbs."""

    @contextmanager
    def make() -> Iterator[tuple[World, Databases]]:
        with make_world(small) as made:
            world = World(made.path, UNDISTURBED)
            yield (
                world,
                {store: (cluster, world.value(store, "select current_database()")) for store, cluster in clusters.items()},
            )

    return make
