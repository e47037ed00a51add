"""The process from which Spark forks its Python workers, with what a slice needs loaded already.

A plain worker imports the driver of Postgres and this library before its first slice, and again whenever Spark has let idle
workers go. Set as `spark.python.daemon.module`.
"""

from __future__ import annotations

from pyspark.daemon import manager

import relaybox.hops.copying  # noqa: F401
import relaybox.verification.comparison_runners  # noqa: F401  # loaded once, inherited by every worker
from relaybox.spark.worker_errors import tell_encodable_errors

if __name__ == "__main__":
    tell_encodable_errors()
    manager()
