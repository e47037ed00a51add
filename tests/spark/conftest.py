"""What tests of DataFrames share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.frames import frame_session, serve
from tests.support.world import World


@pytest.fixture(scope="package")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that knows the format relaybox. All modules share it: a JVM is slow until it has compiled what it runs often."""
    with frame_session(tmp_path_factory.mktemp("frames")) as session:
        yield session


@pytest.fixture
def flights(frames: SparkSession, world: World) -> World:
    """The stores of this test are those of the session."""
    serve(frames)
    return world
