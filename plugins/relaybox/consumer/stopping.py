"""What ends a worker's rest: its stop, a notification of the store, or the time."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any


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

    def wait_for_notification(self, listener: Any, seconds: float) -> None:
        """Waits until the session of a listener is notified, at most these seconds. What it was notified of is forgotten.

        Args:
            listener: of relaybox.clients.listening; its session is outside a transaction.
            seconds: the longest wait.

        Raises:
            Exception: as the library raises it, where the server ended the session.
        """
        ends_at = time.monotonic() + seconds
        woken, self._waker = socket.socketpair()
        with woken, self._waker, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            # asked before each wait: what the library has read already makes the socket no longer readable
            while not (self.is_set() or listener.take_notification()):
                if not selector.select(max(0.0, ends_at - time.monotonic())):
                    break
        self._waker = None
