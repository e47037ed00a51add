"""Reads the body of a request before the request takes its turn: a client that sends slowly, or never ends, delays no other request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Receive

BODY_SECONDS = 10.0
MOST_BYTES = 65_536


class BodyRefusedError(Exception):
    """The body did not come in time, or is longer than any form of the page; `status` is the HTTP status that says so."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


async def read_body(receive: Receive) -> Receive:
    """Reads the whole body, and returns what gives it to the app at once, and after it whatever `receive` gives.

    Raises:
        BodyRefusedError: see there. Nothing was taken from the page for it.
    """
    try:
        whole: Message | None = await asyncio.wait_for(_read(receive), BODY_SECONDS)
    except TimeoutError:
        raise BodyRefusedError(408, f"The request's body did not come within {BODY_SECONDS:g} seconds.") from None

    async def receive_whole() -> Message:
        nonlocal whole
        message, whole = whole, None
        return await receive() if message is None else message

    return receive_whole


async def _read(receive: Receive) -> Message:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            raise BodyRefusedError(413, f"The request's body is longer than {MOST_BYTES:,} bytes.")
        if not message.get("more_body", False):
            return {"type": "http.request", "body": body, "more_body": False}
