"""Two long-living clusters that faults strike, with a proxy in front of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.places import Clusters, running_clusters


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """`source` and `destination`."""
    with running_clusters(tmp_path_factory.mktemp("faults"), segment_rows=100) as sides:
        yield sides
