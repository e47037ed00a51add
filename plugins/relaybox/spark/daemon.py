"""The process from which Spark forks its Python workers, with what a slice needs loaded already.

A plain worker imports the driver of Postgres and this library before its first slice, and again whenever Spark has let idle
workers go. Set as `spark.python.daemon.module`.

It also mends what a worker says of an error whose text has a lone surrogate. A plain worker fails while it encodes that text, and then
waits for the JVM, which waits for the text: the task hangs for ever (Spark 4.2.0, `pyspark.util.handle_worker_exception`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps

from pyspark.daemon import manager

import relaybox.hops.copying  # noqa: F401
import relaybox.verification.comparison_runners  # noqa: F401  # loaded once, inherited by every worker


def tell_encodable_errors() -> None:
    """From now on the texts that the module traceback makes of an error, which a worker sends, have an escape for what UTF-8 has not."""
    for name in ("format_exception", "format_exception_only"):  # format_exc() calls the first one
        setattr(traceback, name, _encodable(getattr(traceback, name)))


def _encodable(format_error: Callable[..., list[str]]) -> Callable[..., list[str]]:
    @wraps(format_error)
    def formatted(*arguments: object, **keys: object) -> list[str]:
        return [line.encode("utf-8", "backslashreplace").decode() for line in format_error(*arguments, **keys)]

    return formatted


if __name__ == "__main__":
    tell_encodable_errors()
    manager()
