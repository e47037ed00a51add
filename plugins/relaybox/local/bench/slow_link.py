"""A loopback port that leads to a Postgres server over links of a bounded rate: a store that is far away, or busy with others."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Self

_CHUNK_BYTES = 1 << 16


class SlowLink:
    """Each connection gets at most `bytes_per_second` of what the server sends; what the client sends has no limit."""

    def __init__(self, host: str, port: int, *, bytes_per_second: float) -> None:
        self._target, self._rate = (host, port), bytes_per_second
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="slow-link", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # it was closed: the measurement is over
            server = socket.create_connection(self._target)
            for link in (client, server):
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_forward, args=(client, server, None), daemon=True).start()
            threading.Thread(target=_forward, args=(server, client, self._rate), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket, rate: float | None) -> None:
    due = time.monotonic()
    with suppress(OSError):  # either end was closed
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
            if rate is not None:
                due = max(due, time.monotonic() - 0.1) + len(data) / rate
                time.sleep(max(0.0, due - time.monotonic()))
    _close(source)
    _close(sink)


def _close(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()
