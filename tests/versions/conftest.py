"""Clusters of the oldest Postgres, beside those of the newest that all tests share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from relaybox.local.clusters import Cluster
from tests.support.memory import fast_temporary_directory
from tests.support.postgres_versions import OLDEST, reason_for_none
from tests.support.stores import running_clusters


@pytest.fixture(scope="package", autouse=True)
def _packages() -> None:
    """Where the lock has packages they must be installed; a missing one is an error, not a skip."""
    if reason := reason_for_none():
        pytest.skip(reason)


@pytest.fixture(scope="package")
def old_clusters() -> Iterator[Mapping[str, Cluster]]:
    """A running cluster of the oldest version for each store."""
    with fast_temporary_directory("old-clusters") as directory, running_clusters(directory, OLDEST) as clusters:
        yield clusters
