"""What tells a loop to stop while a block runs: a signal to the process, or a time that is over."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Stop = Callable[..., object]
"""Ends the loop after what it does now; a signal calls it with its number and the frame."""


@contextmanager
def stopped_by_signals(stop: Stop) -> Iterator[None]:
    """SIGTERM and SIGINT stop the loop, where this is the main thread; afterwards they are what they were."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopped_after(seconds: float, stop: Stop) -> Iterator[None]:
    """Stops the loop at that time, also while it waits for messages."""
    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
