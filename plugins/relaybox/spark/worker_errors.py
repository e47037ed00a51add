"""What a Python worker of Spark says of an error whose text has a lone surrogate.

A plain worker fails while it encodes that text, and then waits for the JVM, which waits for the text: the task hangs for ever (Spark
4.2.0, `pyspark.util.handle_worker_exception`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps


def tell_encodable_errors() -> None:
    """From now on the texts that the module traceback makes of an error, which a worker sends, have an escape for what UTF-8 has not."""
    for name in ("format_exception", "format_exception_only"):  # format_exc() calls the first one
        setattr(traceback, name, _encodable(getattr(traceback, name)))


def _encodable(format_error: Callable[..., list[str]]) -> Callable[..., list[str]]:
    @wraps(format_error)
    def formatted(*arguments: object, **keys: object) -> list[str]:
        return [line.encode("utf-8", "backslashreplace").decode() for line in format_error(*arguments, **keys)]

    return formatted
