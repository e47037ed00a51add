"""`python -m tests.faults.data_application WORK DIRECTORY`: a Spark application with executors of its own, to be killed in the middle.

DIRECTORY is that of a site: its relaybox.yaml, its service file, and what the work leaves there, such as a checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from relaybox.errors import RelayboxError
from relaybox.routes import load_routes
from relaybox.spark.derivations.deriving import derive
from relaybox.spark.failures import SPARK_ERRORS, failure_line
from relaybox.spark.frames import register
from relaybox.spark.lake.exporting import export_stream
from relaybox.spark.tasks import ContextSession
from tests.faults.derived import ROUTE
from tests.support.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FRAME_SENDER, FRAME_MESSAGES, FRAME_PARTITIONS = "frame", 400, 4
QUERY_SENDER, QUERY_TOPIC, SUBSCRIPTION, QUERY_BATCH_MESSAGES = "query", "echo", "lake", 100
EXPORT = "flights_lake"


def frame_payloads() -> list[str]:
    """What the work `frame` sends, in its order."""
    return [f"frame {number}" for number in range(FRAME_MESSAGES)]


def run_derive(spark: SparkSession, directory: Path) -> None:
    route = load_routes(directory / "relaybox.yaml").route(ROUTE)
    derive(route, route.require_derivation(), ContextSession(spark.sparkContext), recorded_by="spark cell")


def run_frame(spark: SparkSession, _: Path) -> None:
    """The same rows and partitions in each run."""
    rows = spark.range(0, FRAME_MESSAGES, 1, FRAME_PARTITIONS).selectExpr("concat('frame ', id) as payload")
    writer = rows.write.format("relaybox").mode("append").option("store", "airline").option("sender", FRAME_SENDER)
    writer.option("topic", "flights").option("write_id", "cell").save()


def run_query(spark: SparkSession, directory: Path) -> None:
    """What the stream has becomes messages of another sender, in micro-batches; a subscription acknowledges them."""
    reader = spark.readStream.format("relaybox").option("store", "hub").option("stream", "flights")
    frame: DataFrame = reader.option("max_messages_per_batch", QUERY_BATCH_MESSAGES).option("subscription", SUBSCRIPTION).load()
    writer = frame.select("key", "payload").writeStream.format("relaybox").option("store", "hub").option("sender", QUERY_SENDER)
    writer = writer.option("topic", QUERY_TOPIC).option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def run_export(spark: SparkSession, directory: Path) -> None:
    export_stream(load_routes(directory / "relaybox.yaml").export(EXPORT), ContextSession(spark.sparkContext))


WORKS: Mapping[str, Callable[[SparkSession, Path], None]] = {
    "derive": run_derive,
    "frame": run_frame,
    "query": run_query,
    "export": run_export,
}


def main() -> int:
    """0: done; 1: an error of Relaybox or of Spark, which the orchestrator answers with another run."""
    from pyspark.sql import SparkSession

    work, directory = sys.argv[1:]
    with spark_session() as context:
        spark = SparkSession(context)
        register(spark)
        try:
            WORKS[work](spark, Path(directory))
        except RelayboxError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        except SPARK_ERRORS as error:
            print(failure_line(error), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
