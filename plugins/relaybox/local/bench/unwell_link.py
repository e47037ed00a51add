"""A loopback port that leads to a Postgres server, or to nothing that answers: how a store looks when it or its network is unwell."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Literal, Self

Manner = Literal["healthy", "silent", "slow", "dead"]

SLOW_SECONDS = 0.3
"""Each answer of a slow store is so late."""

_CHUNK_BYTES = 1 << 16


class UnwellLink:
    """`manner`, changed at any time, counts for connections that are opened later; `dead` refuses them."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._opened: list[socket.socket] = []
        self.manner: Manner = "healthy"
        self._ended = False
        threading.Thread(target=self._accept, name="unwell-link", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def change(self, manner: Manner) -> None:
        """From now on; links that are open are closed."""
        self.manner = manner
        for link in self._opened:
            _close(link)
        self._opened = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self.change("dead")
        _close(self._listener)

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # it was closed: the measurement is over
            if self.manner == "dead":
                _close(client)
                continue
            self._opened.append(client)
            if self.manner != "silent":
                threading.Thread(
                    target=self._serve, args=(client, SLOW_SECONDS if self.manner == "slow" else 0.0), daemon=True
                ).start()

    def _serve(self, client: socket.socket, delay_seconds: float) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            _close(client)
            return
        self._opened.append(server)
        threading.Thread(target=_forward, args=(client, server, 0.0), daemon=True).start()
        _forward(server, client, delay_seconds)


def _forward(source: socket.socket, sink: socket.socket, delay_seconds: float) -> None:
    with suppress(OSError):  # either end was closed
        while data := source.recv(_CHUNK_BYTES):
            time.sleep(delay_seconds)
            sink.sendall(data)
    _close(source)
    _close(sink)


def _close(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()
