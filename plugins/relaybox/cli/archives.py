"""A Spark session for a command: started when there is something to detach or to attach, ended with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.driver_options import driver_java_options

if TYPE_CHECKING:
    from relaybox.detaching import SegmentArchive


@contextmanager
def spark_archive(name: str) -> Iterator[SegmentArchive]:
    """Spark on this machine, or where its configuration (SPARK_CONF_DIR) says.

    Raises:
        ConfigurationError: Spark or Java is not installed.
    """
    from relaybox.local.java import find_java_home

    try:
        from relaybox.spark.archive import open_archive
    except ImportError as error:
        raise errors.ConfigurationError(
            f"detached segments are written and read by Spark, which is not installed here: {error}.",
            next_step="Install relaybox[spark], or let Airflow do it: DAG relaybox_retention.",
        ) from error
    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_CONF_DIR" not in os.environ:  # then it runs on this machine, whose name need not be an address
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with open_archive(name, driver_java_options()) as archive:
        yield archive
