"""A TCP proxy in front of a Postgres server that loses the network on demand: resets, black holes, cut answers."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self

Direction = Literal["to_server", "to_client"]

_CHUNK_BYTES = 1 << 16
_COMMIT = b"Q" + struct.pack("!I", 11) + b"COMMIT\0"
"""The simple-query message of COMMIT; libpq sends it in a packet of its own."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with 0 seconds: close() sends a reset


class Proxy:
    """Forwards connections from a loopback port to a server. All faults hit the links that exist at that moment.

    Links opened later work, as after a router has come back, unless a fault that waits for its moment is armed.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._bytes_left: int | None = None
        self._cuts_commit = False
        self.commit_was_cut = threading.Event()
        self.has_reset = threading.Event()
        threading.Thread(target=self._accept, name="proxy-accept", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def reset(self) -> None:
        """Resets every link, in both directions."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            link.reset()
        self.has_reset.set()

    def reset_after(self, byte_count: int) -> None:
        """Forwards this number of bytes, both directions and all links together, then resets every link."""
        with self._lock:
            self._bytes_left = byte_count

    def black_hole(self, *directions: Direction) -> None:
        """Stops forwarding; nobody is told. One direction, or both when none is named."""
        with self._lock:
            for link in self._links:
                for direction in directions or ("to_server", "to_client"):
                    link.flows[direction].clear()

    def cut_next_commit(self) -> None:
        """Lets the next COMMIT through and resets its link when the answer comes: the client can't know its outcome."""
        with self._lock:
            self._cuts_commit = True

    def heal(self) -> None:
        """Forwards again, also what was held back, and disarms what has not happened yet."""
        with self._lock:
            self._bytes_left, self._cuts_commit = None, False
            for link in self._links:
                for flow in link.flows.values():
                    flow.set()
        self.commit_was_cut.clear()
        self.has_reset.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed: the proxy ends
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()  # the server is down, and so is its port
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(client, server)
            with self._lock:
                self._links.add(link)
            threading.Thread(target=self._pump, args=(link, "to_server"), name="proxy-to-server", daemon=True).start()
            threading.Thread(target=self._pump, args=(link, "to_client"), name="proxy-to-client", daemon=True).start()

    def _pump(self, link: _Link, direction: Direction) -> None:
        come_from, go_to = link.ends(direction)
        with suppress(OSError):  # either end broke: so does the other one
            while data := come_from.recv(_CHUNK_BYTES):
                link.flows[direction].wait()
                if direction == "to_server" and data.endswith(_COMMIT):
                    self._watch_commit(link)
                elif direction == "to_client" and link.drops_answer:
                    link.reset()
                    self.commit_was_cut.set()
                    break
                allowed = self._allowed(len(data))
                go_to.sendall(data[:allowed])
                if allowed < len(data):
                    self.reset()
                    break
            else:
                link.flows[direction].wait()
                go_to.shutdown(socket.SHUT_WR)
                if not link.half_closed(direction):
                    return
        link.close()
        with self._lock:
            self._links.discard(link)

    def _watch_commit(self, link: _Link) -> None:
        with self._lock:
            link.drops_answer, self._cuts_commit = self._cuts_commit, False

    def _allowed(self, byte_count: int) -> int:
        """How many of these bytes may pass; fewer than asked for means that the links are to be reset."""
        with self._lock:
            if self._bytes_left is None:
                return byte_count
            allowed = min(byte_count, self._bytes_left)
            self._bytes_left = self._bytes_left - allowed if allowed == byte_count else None
            return allowed


@dataclass(eq=False)
class _Link:
    """A client's connection and the one to the server that belongs to it."""

    client: socket.socket
    server: socket.socket
    flows: dict[Direction, threading.Event] = field(
        default_factory=lambda: {"to_server": _set_event(), "to_client": _set_event()}
    )
    ended: set[Direction] = field(default_factory=set)
    drops_answer: bool = False

    def ends(self, direction: Direction) -> tuple[socket.socket, socket.socket]:
        return (self.client, self.server) if direction == "to_server" else (self.server, self.client)

    def half_closed(self, direction: Direction) -> bool:
        """Notes that a direction has ended; true when both have."""
        self.ended.add(direction)
        return len(self.ended) == 2

    def reset(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close()

    def close(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads from it; sends nothing
            end.close()
        for flow in self.flows.values():
            flow.set()


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event
