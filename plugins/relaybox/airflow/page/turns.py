"""Requests to the page take turns, and rest between them: Airflow's own endpoints share the process and come first.

A turn is the time that a request computes. While it waits for a store it has none, so a store that does not answer delays no other request.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary

PATIENCE_SECONDS = 15.0
"""So long a request waits for a turn; then it is told to come again."""

REST = 3.0
"""After a turn no request gets one for this many times its length: turns of up to a third of a second take a quarter of the time at most.

By the clock, not by the CPU: on a loaded machine a turn that takes little CPU keeps Airflow's endpoints waiting all the same.
"""

LONGEST_REST_SECONDS = 1.0
"""A user who opens a page waits this long for its HTML and again for its style. Shorter rests give the page more than its quarter."""


class NoTurnError(Exception):
    """Too many others wait."""


class Turns:
    """Of one process, first come, first served; requests that have begun go before those that have not.

    Each event loop has its own: a server has one, and what a loop waits for, only itself can tell it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()

    @property
    def _queue(self) -> _Queue:
        with self._lock:
            return self._queues.setdefault(asyncio.get_running_loop(), _Queue())

    @asynccontextmanager
    async def turn(self, gone: asyncio.Future[None] | None = None) -> AsyncIterator[None]:
        """Has a turn while the block runs, but for the parts of it that wait without one.

        Args:
            gone: done when the client no longer waits for the answer: then the request leaves the queue.

        Raises:
            NoTurnError: none was free in time, or the client has gone; the block is not entered.
        """
        started = await self.take(has_begun=False, gone=gone)
        turn = _Turn(self, started)
        token = _turn.set(turn)
        try:
            yield
        finally:
            _turn.reset(token)
            turn.give_back()

    async def take(self, *, has_begun: bool, gone: asyncio.Future[None] | None = None) -> float:
        """Waits for a turn, without a limit if it `has_begun`; returns when it began."""
        queue = self._queue
        if queue.is_taken:
            called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (queue.waiting.appendleft if has_begun else queue.waiting.append)(called)
            try:
                await asyncio.wait(
                    {called, *({gone} if gone else ())},
                    timeout=None if has_begun else PATIENCE_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            except asyncio.CancelledError:
                if not called.cancel():  # the request has ended at the moment of its turn
                    queue.call_next()
                raise
            if not called.done():
                called.cancel()
                raise NoTurnError
        queue.is_taken = True
        return time.monotonic()

    def give_back(self, worked_seconds: float) -> None:
        """Ends a turn that took so long."""
        asyncio.get_running_loop().call_later(min(worked_seconds * REST, LONGEST_REST_SECONDS), self._queue.call_next)


class _Queue:
    """Who waits in one event loop."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.is_taken = False

    def call_next(self) -> None:
        while self.waiting:
            called = self.waiting.popleft()
            if not called.done():
                called.set_result(None)
                return
        self.is_taken = False


class _Turn:
    """The turn of one request."""

    def __init__(self, turns: Turns, started: float) -> None:
        self._turns, self._started = turns, started
        self._is_held = True

    async def take_again(self) -> None:
        self._started = await self._turns.take(has_begun=True)
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._turns.give_back(time.monotonic() - self._started)


_turn: ContextVar[_Turn | None] = ContextVar("relaybox_turn", default=None)


@asynccontextmanager
async def without_turn() -> AsyncIterator[None]:
    """Gives the request's turn to others while the block waits, however many things at once it waits for."""
    turn = _turn.get()
    if turn is None:
        yield
        return
    turn.give_back()
    token = _turn.set(None)
    try:
        yield
    finally:
        _turn.reset(token)
        await turn.take_again()
