"""The time of a task, after which it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType

import pytest

from relaybox.consumer.stop_signals import stopped_after


class TaskTime:
    """Begins when the test says so, and not while a busy machine still logs in."""

    def __init__(self, operators: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begin: Callable[[], object] = lambda: None
        self.is_over = threading.Event()
        monkeypatch.setattr(operators, "stopped_after", self._stopped_after)

    @contextmanager
    def _stopped_after(self, seconds: float, stop: Callable[[], object]) -> Iterator[None]:
        def end() -> None:
            stop()
            self.is_over.set()

        with ExitStack() as timers:
            self.begin = lambda: timers.enter_context(stopped_after(seconds, end))
            yield
