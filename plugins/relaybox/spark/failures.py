"""What Spark raises in a driver, in a line; the rest is in Spark's log."""

from __future__ import annotations

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
_LONGEST = 500


def failure_line(error: Exception) -> str:
    """The error of ours that a task ended with, if there is one, else Spark's own first line."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in said if line.startswith("relaybox.errors.")]
    return (ours[-1:] or said[:1] or [type(error).__name__])[0][:_LONGEST]
