"""Signals that ask a program to end, as an exception: what it started is stopped and removed on the way out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM and the end of the terminal end the block as Ctrl-C does, so that all is cleaned up.

    Ctrl-C is among them since a shell starts background processes with SIGINT ignored.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ASKING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
