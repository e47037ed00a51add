"""The session in which tests read streams as DataFrames: its workers find the stores of the running test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relaybox.spark.frames import register
from tests.support.spark_session import spark_session


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
