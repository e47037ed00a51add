"""The session in which tests read streams as DataFrames: its workers find the stores of the running test. And how they read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relaybox.spark.frames import register
from relaybox.spark.frames.columns import COLUMNS
from tests.support.patience import patience
from tests.support.spark_session import spark_session
from tests.support.streams import STORE, STREAM
from tests.support.world import World


@contextmanager
def frame_session(directory: Path, master: str = "local[2]") -> Iterator[SparkSession]:
    """Its JVM starts the workers that plan and read, so they have its PGSERVICEFILE: one file, which serve() writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGSERVICEFILE", str(directory / "services.conf"))
        with spark_session(master) as context:
            session = SparkSession(context)
            register(session)
            yield session


def service_file(spark: SparkSession) -> Path:
    """The service file of the session's workers."""
    return Path(spark.sparkContext._jvm.System.getenv("PGSERVICEFILE"))  # type: ignore[union-attr]  # noqa: SLF001


def serve(spark: SparkSession) -> None:
    """The workers find the stores that this process finds now."""
    shutil.copy(os.environ["PGSERVICEFILE"], service_file(spark))


ODD = """
insert into relaybox.outbox (topic, sender, key, headers, payload, payload_bytes, clock) values
('flights', 'UA', null, null, '', null, null),
('flights', 'UA.1', '', '{"b": [1.00, null, "\\u00e9"], "a": {"n": 123456789012345678901234567890.10}}', e'a,b\\t"q"\\n\\\\N\\x7f 😀', null, null),
('flights', 'DL', 'it''s', '{}', null, decode('00ff0a5c2e00', 'hex'), '{"UA": 7}'),
('flights', 'DL', e'back\\\\slash', '{"ä": null}', 'NULL', null, '{}'),
('flights', 'DL', 'k', null, repeat('long ', 300000), null, null)
"""
"""Messages that a careless conversion changes."""

SELECTED = ", ".join(f"{column.sql} as {name}" for name, column in COLUMNS.items())


def reading(frames: SparkSession, **options: object) -> DataFrame:
    reader = frames.read.format("relaybox").option("store", STORE).option("stream", STREAM)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def positions(frame: DataFrame) -> list[int]:
    return sorted(row.stream_position for row in frame.select("stream_position").collect())


def stored(world: World) -> list[tuple[Any, ...]]:
    query = f"select {SELECTED} from relaybox.read_stream('{STREAM}', 0, 100000) order by stream_position"
    return [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in world.query(STORE, query)]


END_SECONDS = 120


class Batch(NamedTuple):
    """A micro-batch as a query saw it."""

    number: int
    first: int
    last: int
    count: int


def run(spark: SparkSession, checkpoint: Path, sink: Callable[[DataFrame, int], None], **options: object) -> None:
    """Reads what is there, through the checkpoint of the query."""
    source = spark.readStream.format("relaybox").options(
        store=STORE, stream=STREAM, **{name: str(value) for name, value in options.items()}
    )
    writer = source.load().writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    assert writer.start().awaitTermination(int(patience(END_SECONDS)))


def noting(batches: list[Batch], *, fails_at: int | None = None) -> Callable[[DataFrame, int], None]:
    """A sink that notes each micro-batch, and fails after one of them."""

    def note(frame: DataFrame, number: int) -> None:
        (row,) = frame.agg(f.min("stream_position"), f.max("stream_position"), f.count("*")).collect()
        batches.append(Batch(number, *row))
        if number == fails_at:
            raise RuntimeError("the sink fails")

    return note
