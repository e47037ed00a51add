"""Spark for a command: it starts when the command needs it, and ends with the command."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.spark.driver_options import driver_java_options

if TYPE_CHECKING:
    from relaybox.retention.segment_archive import SegmentArchive
    from relaybox.spark.tasks import TaskSession
    from relaybox.verification.comparison_runners import ComparisonRunner


@contextmanager
def spark_archive(name: str) -> Iterator[SegmentArchive]:
    """Writes and reads files with Spark on this machine, on the master of SPARK_CONF_DIR, or on the server of SPARK_REMOTE.

    Raises:
        ConfigurationError: Spark or Java is not installed.
    """
    with _installed("Spark writes and reads detached segments", "or use the Airflow DAG relaybox_retention"):
        from relaybox.spark.archive import SparkArchive
    with _session(name) as session:
        yield SparkArchive(session)


@contextmanager
def spark_comparison(name: str) -> Iterator[ComparisonRunner]:
    """Compares slices in tasks of Spark on this machine, on the master of SPARK_CONF_DIR, or on the server of SPARK_REMOTE.

    Args:
        name: of the application, and of its sessions in the stores.

    Raises:
        ConfigurationError: Spark or Java is not installed.
    """
    with _installed("--runner spark compares the stores with Spark", "or use --runner threads"):
        from relaybox.spark.comparison_runner import SparkComparisonRunner
    with _session(name) as session:
        yield SparkComparisonRunner(session, session_name=name)


@contextmanager
def spark_derivation(name: str) -> Iterator[TaskSession]:
    """A session for a derivation: on this machine, on the master of SPARK_CONF_DIR, or on the server of SPARK_REMOTE.

    Raises:
        ConfigurationError: Spark or Java is not installed.
    """
    with _installed("relaybox derive runs with Spark", "or let Airflow run it"):
        import relaybox.spark.derivations.deriving  # noqa: F401
    with _session(name) as session:
        yield session


def require_lake() -> None:
    """Raises ConfigurationError unless Spark is installed; open_table() finds out whether the library of the format is."""
    with _installed(
        "an export writes tables of a lake with Spark, deltalake or pyiceberg", "or let Airflow run it", extras="spark,lake"
    ):
        import relaybox.spark.lake.exporting  # noqa: F401


@contextmanager
def spark_lake(name: str) -> Iterator[TaskSession]:
    """A session for an export: on this machine, on the master of SPARK_CONF_DIR, or on the server of SPARK_REMOTE.

    Raises:
        ConfigurationError: Java is not installed.
    """
    with _session(name) as session:
        yield session


@contextmanager
def _session(name: str) -> Iterator[TaskSession]:
    """On the server of SPARK_REMOTE, which is Spark's own variable for it, else a Spark of this command's."""
    if address := os.environ.get("SPARK_REMOTE"):
        from relaybox.spark.connect import TaskTry, connect_session

        with connect_session(address, TaskTry("command", str(uuid.uuid4()), name, 1), {}) as session:
            yield session
        return
    from relaybox.local.java import find_spark_programs
    from relaybox.spark.application import command_session

    find_spark_programs()
    with command_session(name, driver_java_options()) as session:
        yield session


@contextmanager
def _installed(what_for: str, instead: str, *, extras: str = "spark") -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise errors.ConfigurationError(
            f"{what_for}, but {'Spark is' if extras == 'spark' else 'they are'} not installed: {error}.",
            next_step=f"Install relaybox[{extras}], {instead}.",
        ) from error
