"""What ends the rest of a worker in an event loop: its stop, a notification of the store, or the time."""

from __future__ import annotations

import asyncio
from typing import Any


class StopEvent(asyncio.Event):
    """Set when a worker is to stop, in the event loop. Ends each wait."""

    def __init__(self) -> None:
        super().__init__()
        self._rest: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Ends the current wait and all later ones."""
        super().set()
        self._end_rest()

    def _end_rest(self) -> None:
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)

    async def wait_for_notification(self, listener: Any, seconds: float) -> None:
        """Waits until the session of a listener is notified, at most these seconds. What it was notified of is forgotten.

        Args:
            listener: of relaybox.clients.listening; its session is outside a transaction.
            seconds: the longest wait.

        Raises:
            Exception: as the library raises it, where the server ended the session.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        with listener.waking(self._end_rest):
            # asked before each wait: what the library has read already makes the socket no longer readable
            while not (self.is_set() or listener.take_notification()):
                self._rest = loop.create_future()
                timer = loop.call_at(ends_at, self._end_rest)
                try:
                    await self._rest
                finally:
                    timer.cancel()
                if loop.time() >= ends_at:
                    break
