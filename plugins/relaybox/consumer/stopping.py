"""What ends a worker's rest: its stop, a notification of the store, or the time."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection


class StopEvent(threading.Event):
    """Set when a worker is to stop, by a signal handler or by another thread too. Ends each wait."""

    def __init__(self) -> None:
        super().__init__()
        self._waker: socket.socket | None = None

    def set(self) -> None:
        """Ends the current wait and all later ones."""
        super().set()
        if (waker := self._waker) is not None:
            with suppress(OSError):  # the wait has ended meanwhile
                waker.send(b"\0")

    def wait_for_notification(self, session: Connection, seconds: float) -> None:
        """Waits until the session is notified, at most these seconds. What it was notified of is forgotten.

        Args:
            session: outside a transaction, and listening.
            seconds: the longest wait.

        Raises:
            psycopg2.Error: the server ended the session.
        """
        ends_at = time.monotonic() + seconds
        woken, self._waker = socket.socketpair()
        with woken, self._waker, selectors.DefaultSelector() as selector:
            selector.register(session, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            # asked before each wait: what libpq has read already makes the socket no longer readable
            while not (self.is_set() or _take_notifications(session)):
                if not selector.select(max(0.0, ends_at - time.monotonic())):
                    break
        self._waker = None


def _take_notifications(session: Connection) -> bool:
    session.poll()
    is_notified = bool(session.notifies)
    session.notifies.clear()
    return is_notified
