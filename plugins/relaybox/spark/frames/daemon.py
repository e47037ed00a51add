"""The process from which Spark forks the Python workers of DataFrames, with what they need loaded already.

A plain worker imports pyarrow, ADBC and this library before it plans or reads, which takes 0.4 CPU seconds of each. Set as
`spark.python.daemon.module`.
"""

from __future__ import annotations

import adbc_driver_manager.dbapi  # noqa: F401  # loaded once, inherited by every worker
import adbc_driver_postgresql  # type: ignore[import-untyped]  # noqa: F401
from pyspark.daemon import manager

import relaybox.spark.frames.source  # noqa: F401
from relaybox.spark.worker_errors import tell_encodable_errors

if __name__ == "__main__":
    tell_encodable_errors()
    manager()
