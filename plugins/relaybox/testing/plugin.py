"""The plugin that pytest loads in every run: imports nothing until a test asks for its fixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from relaybox.testing.clusters import TestCluster
    from relaybox.testing.stores import TestStores


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("relaybox_topics", "the topics that the stores of the fixture relaybox_stores move", type="args", default=[])


@pytest.fixture(scope="session")
def relaybox_cluster(request: pytest.FixtureRequest) -> Iterator[TestCluster]:
    """A server of Postgres with two initialised, empty stores to copy; gone with the last test."""
    from relaybox.testing.clusters import running_cluster

    topics = tuple(request.config.getini("relaybox_topics"))
    if not topics:
        pytest.fail(
            "relaybox_stores: no topics. Name them in pyproject.toml: [tool.pytest.ini_options] relaybox_topics = ['orders']"
        )
    with running_cluster(topics) as cluster:
        yield cluster


@pytest.fixture
def relaybox_stores(relaybox_cluster: TestCluster) -> Iterator[TestStores]:
    """Two empty stores of this test: messages go from `outbox` to `inbox` when the test calls deliver()."""
    from relaybox.testing.stores import fresh_stores

    with fresh_stores(relaybox_cluster) as stores:
        yield stores
