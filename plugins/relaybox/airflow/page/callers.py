"""Tells whether the client of a request is still connected: for browsers that left no store is asked and no page is drawn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Receive


class Caller:
    """Of a request whose body is not needed. Listens ahead of the app, which is told all the same."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._heard: asyncio.Queue[Message] = asyncio.Queue()
        self._listening: asyncio.Task[None] | None = None

    def gone(self) -> asyncio.Task[None]:
        """Ends when the caller has left."""
        self._listening = asyncio.create_task(self._listen())
        return self._listening

    async def receive(self) -> Message:
        return await self._heard.get()

    def stop(self) -> None:
        """The request is answered."""
        if self._listening is not None:
            self._listening.cancel()

    async def _listen(self) -> None:
        while True:
            message = await self._receive()
            self._heard.put_nowait(message)
            if message["type"] == "http.disconnect":
                return
