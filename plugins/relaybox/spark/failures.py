"""What Spark raises in a driver, in a line; the rest is in Spark's log."""

from __future__ import annotations

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
_LONGEST = 500


def failure_line(error: Exception) -> str:
    """The error of ours that a task ended with, if there is one; else what Python raised in a task; else Spark's own first line."""
    text = printable(str(error))
    said = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in said if line.startswith("relaybox.errors.")]
    return (ours[-1:] or _raised_in_python(text)[-1:] or said[:1] or [type(error).__name__])[0][:_LONGEST]


def printable(text: str) -> str:
    """The same without what no store and no terminal takes: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _raised_in_python(text: str) -> list[str]:
    """The first line of each exception whose traceback is in the text."""
    raised: list[str] = []
    is_traceback = False
    for line in text.splitlines():
        if line.lstrip().startswith("Traceback (most recent call last)"):
            is_traceback = True
        elif is_traceback and line.strip() and not line[0].isspace():
            raised.append(line.strip())
            is_traceback = False
    return raised
