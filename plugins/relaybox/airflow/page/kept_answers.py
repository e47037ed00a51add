"""Answers that many ask for and one thread fetches: kept for a moment, and shown with their age while the next one is late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import HTTPException

from relaybox.airflow.page.threads import answered

KEPT_SECONDS = 2.0
"""Many viewers ask the stores once."""

NEXT_ANSWER_SECONDS = 0.5
"""How long a request waits for a new answer when an older one could be shown."""

FIRST_ANSWER_SECONDS = 8.0

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class AgedAnswer(Generic[_Answer]):
    """An answer, and how long ago it was asked for."""

    answer: _Answer
    age_seconds: float


class KeptAnswer(Generic[_Answer]):
    """One question. `start` begins to ask it, in threads that end by themselves; it is asked once at a time.

    Args:
        kept_seconds: how old a shown answer may be before the question is asked again; KEPT_SECONDS by default.
    """

    def __init__(self, start: Callable[[], Future[_Answer]], *, kept_seconds: float | None = None) -> None:
        self._start = start
        self._kept_seconds = kept_seconds
        self._lock = threading.Lock()
        self._asked: tuple[float, Future[_Answer]] | None = None
        self._kept: tuple[float, _Answer] | None = None

    async def get(self, *, first_seconds: float | None = None) -> AgedAnswer[_Answer]:
        """The newest answer: not older than it may be, unless the next one has not come.

        Args:
            first_seconds: how long to wait where there is no answer yet.

        Raises:
            HTTPException: 503, there is no answer yet.
            What the asking raised.
        """
        first_seconds = FIRST_ANSWER_SECONDS if first_seconds is None else first_seconds
        with self._lock:
            kept = self._take_over()
            if kept is not None and time.monotonic() - kept[0] <= (
                KEPT_SECONDS if self._kept_seconds is None else self._kept_seconds
            ):
                return _aged(kept)
            asked = self._ask()
        try:
            await answered(asked, first_seconds if kept is None else NEXT_ANSWER_SECONDS, keep=True)
        except HTTPException:
            if kept is None:
                raise
            return _aged(kept)
        with self._lock:
            newest = self._take_over()
        return await self.get(first_seconds=first_seconds) if newest is None else _aged(newest)

    def forget(self) -> None:
        """Answers that were asked for before this moment are not shown any more."""
        with self._lock:
            self._asked = self._kept = None

    def _ask(self) -> Future[_Answer]:
        """Under the lock."""
        if self._asked is None:
            self._asked = time.monotonic(), self._start()
        return self._asked[1]

    def _take_over(self) -> tuple[float, _Answer] | None:
        """Under the lock: keeps what has come. An error is told to those who waited for it, and asked about anew."""
        if self._asked is not None and self._asked[1].done():
            asked_at, answer = self._asked
            self._asked = None
            if answer.exception() is None:
                self._kept = asked_at, answer.result()
        return self._kept


def _aged(kept: tuple[float, _Answer]) -> AgedAnswer[_Answer]:
    return AgedAnswer(kept[1], time.monotonic() - kept[0])
