"""Streams as DataFrames, and DataFrames into an outbox: `register(spark)`, then the format `relaybox`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes the format `relaybox` known to a session, classic or Connect."""
    from relaybox.spark.frames.source import RelayboxSource

    spark.dataSource.register(RelayboxSource)
