"""A real HTTP server of a test, which answers as the test says: well, slowly, wrongly, or not at all."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request, as it arrived. Names of headers are in small letters."""

    path: str
    headers: Mapping[str, str]
    body: bytes


Behaviour = Callable[["Handler"], None]


@dataclass
class Endpoint:
    """What the server has received, and what it answers: the next of `answers`, else `always`.

    Attributes:
        endless_bytes: how much of answers without an end was taken.
        ends: set when the test is over, so that an answer that hangs ends.
    """

    url: str = ""
    requests: list[Received] = field(default_factory=list)
    answers: deque[Behaviour] = field(default_factory=deque)
    always: Behaviour = field(default_factory=lambda: answer(204))
    ends: threading.Event = field(default_factory=threading.Event)
    endless_bytes: int = 0
    under_way: int = 0
    most_under_way: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ids(self) -> list[str]:
        """The webhook-id of each request, in order."""
        return [request.headers["webhook-id"] for request in self.requests]

    def take(self, handler: Handler) -> None:
        """Notes a request, and answers it."""
        with self._lock:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            behaviour = self.answers.popleft() if self.answers else self.always
        length = int(handler.headers.get("content-length", 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append(Received(handler.path, headers, handler.rfile.read(length)))
        try:
            with suppress(OSError):  # the client has gone
                behaviour(handler)
        finally:
            with self._lock:
                self.under_way -= 1


class Handler(BaseHTTPRequestHandler):
    """Answers POST with what the endpoint says."""

    protocol_version = "HTTP/1.1"

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint  # type: ignore[attr-defined,no-any-return]

    def do_POST(self) -> None:
        self.endpoint.take(self)

    def log_message(self, *_: Any) -> None:
        """Tests read what was received."""


@contextmanager
def endpoint(wrap: Callable[[socket.socket], socket.socket] | None = None) -> Iterator[Endpoint]:
    """Serves on a free port while the block runs.

    Args:
        wrap: makes of the listening socket one with TLS.
    """
    here = Endpoint()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    server.endpoint = here  # type: ignore[attr-defined]
    if wrap is not None:
        server.socket = wrap(server.socket)
    here.url = f"{'https' if wrap else 'http'}://127.0.0.1:{server.server_port}/hooks"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.ends.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answer(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """A whole answer; `retry_after="1"` is the header Retry-After."""

    def behave(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def twice(behaviour: Behaviour) -> Behaviour:
    """An answer too many, which nobody asked for."""

    def behave(handler: Handler) -> None:
        behaviour(handler)
        behaviour(handler)

    return behave


def hang(handler: Handler) -> None:
    """Never answers."""
    handler.endpoint.ends.wait()
    handler.close_connection = True


def reset(handler: Handler) -> None:
    """Resets the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def garbage(handler: Handler) -> None:
    """Answers with what is no HTTP."""
    handler.connection.sendall(b"\x00\xff SSH-2.0 no HTTP at all\r\n\r\n")
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """Sends a byte of a header now and then, for ten seconds: no read of the client takes long. Then it answers well."""
    handler.connection.sendall(b"HTTP/1.1 200 OK\r\nx-slow: ")
    for _ in range(200):
        if handler.endpoint.ends.wait(0.05):
            break
        handler.connection.sendall(b"a")
    handler.connection.sendall(b"\r\ncontent-length: 0\r\n\r\n")


def endless(status: int) -> Behaviour:
    """A body without an end, as fast as the client takes it."""

    def behave(handler: Handler) -> None:
        handler.connection.sendall(f"HTTP/1.1 {status} Fine\r\nconnection: close\r\n\r\n".encode())
        while not handler.endpoint.ends.is_set():
            handler.connection.sendall(b"x" * 65_536)
            handler.endpoint.endless_bytes += 65_536
        handler.close_connection = True

    return behave
