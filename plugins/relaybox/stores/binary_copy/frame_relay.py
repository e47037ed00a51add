"""Hands the rows of a COPY TO on to a COPY FROM in the frames in which they came: no row is taken out and wrapped again.

libpq gives one row at a time. Here Python asks for the COPY TO in the source's socket itself, and writes the frames `d` (CopyData) that
come into the destination's socket, while libpq waits for the data of its COPY FROM there. libpq begins and ends the COPY FROM, and reads
what the destination's server says of it.

Both sockets must have the protocol's own bytes (is_plain). Only whole frames are handed on, so the destination's session is always
between two frames, where libpq can end the COPY or make it fail.
"""

from __future__ import annotations

import io
import mmap
import os
import select
import socket
import struct
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg2

from relaybox.failpoints import reach

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

BUFFER_BYTES = 1 << 18
"""For the frames of one read. A frame that is longer makes the buffer of its relay grow."""

LONGEST_ROW_BYTES = 1 << 30
LONGEST_MESSAGE_BYTES = 1 << 20
"""Of messages that are no rows. A server of Postgres sends no longer one."""

_HEAD_BYTES = 5
_read_head = struct.Struct(">cI").unpack_from
"""The kind of a message, and its length without the kind."""

_NEXT_MESSAGE = {b"H": b"c", b"c": b"C", b"C": b"Z", b"Z": b""}
"""A COPY TO is: H (begins), rows, c (all rows), C (the command is complete), Z (ready for the next one)."""

_ASIDE = (b"N", b"S", b"A")
"""A notice, a setting that changed, a notification: may come at any time, and say nothing of the COPY."""

_DROPPED = (b"N", b"A")
"""Of a destination's server: nobody would read them. A setting that changed is libpq's."""

_ERROR_FIELDS = {"C": "sqlstate", "M": "message_primary", "D": "message_detail", "H": "message_hint", "W": "context"}


def is_plain(connection: Connection) -> bool:
    """Whether neither TLS nor GSS encrypts what is in a session's socket. Asks its server: a transaction has begun then."""
    if connection.info.ssl_in_use:
        return False
    with connection.cursor() as cursor:
        cursor.execute("select encrypted from pg_catalog.pg_stat_gssapi where pid = pg_catalog.pg_backend_pid()")
        row = cursor.fetchone()
    return row is None or not row[0]


def _pages(size: int) -> mmap.mmap:
    """Memory for a long row, which the process gives back when the relay ends. malloc would keep some of it for each of its threads."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class SourceFailed(Exception):
    """The COPY TO did not end well; `error` is what its server said, or what became of the socket."""

    def __init__(self, error: psycopg2.Error) -> None:
        super().__init__(str(error))
        self.error = error


class DestinationFrozen(Exception):
    """The destination had not taken everything at the deadline."""


class ServerError(psycopg2.DatabaseError):
    """An error of a server that libpq has not read, with the attributes that psycopg2 gives its own."""

    pgcode: str | None = None
    diag: Any = None

    def __init__(self, fields: bytes) -> None:
        told = {field[:1]: field[1:] for field in fields.decode("utf-8", "replace").split("\0")}
        self.diag = SimpleNamespace(**{name: told.get(letter) for letter, name in _ERROR_FIELDS.items()})
        self.pgcode = self.diag.sqlstate
        super().__init__(self.diag.message_primary)


class FrameRelay(io.RawIOBase):
    """The file of a COPY FROM: an empty one. Before it is at its end, all frames of the source have passed by libpq.

    A relay is read once, and closed by its caller. The source's session is out of step with its server unless `has_sent_all`.

    Args:
        source: a session outside a COPY.
        query: the COPY TO.
        destination: the session of the COPY FROM that reads this file.
        timeout_seconds: for everything.

    Attributes:
        byte_count: of the rows, without the heads of their frames.
        has_sent_all: the source's server has said that this was all, and that it is ready.
        failure: what went wrong, unless the destination's server tells it.
    """

    def __init__(self, source: Connection, query: str, destination: Connection, *, timeout_seconds: float) -> None:
        super().__init__()
        self._source = socket.socket(fileno=os.dup(source.fileno()))
        self._destination = socket.socket(fileno=os.dup(destination.fileno()))
        self._query = query
        self._timeout_seconds, self._deadline = timeout_seconds, time.monotonic() + timeout_seconds
        self._buffer: bytearray | mmap.mmap = bytearray(BUFFER_BYTES)
        self._filled = 0
        self._expected = b"H"
        self.byte_count = 0
        self.has_sent_all = False
        self.failure: SourceFailed | DestinationFrozen | None = None

    def close(self) -> None:
        self._source.close()
        self._destination.close()
        super().close()

    def read(self, size: int = -1, /) -> bytes:  # noqa: ARG002  there is nothing to read
        """Hands everything on. If the destination's server fails, this ends early and without an error: libpq reads the server's."""
        try:
            self._ask()
            while not self.has_sent_all and self._has_input():
                self._receive()
                self._hand_on()
            if self.has_sent_all and self._filled:
                raise self._unexpected(bytes(self._buffer[:1]))
        except (SourceFailed, DestinationFrozen) as failure:
            self.failure = failure
            raise
        return b""

    def _ask(self) -> None:
        text = self._query.encode() + b"\0"
        self._send(self._source, memoryview(b"Q" + struct.pack(">I", 4 + len(text)) + text))
        self._inputs = select.poll()
        self._inputs.register(self._source, select.POLLIN)
        self._inputs.register(self._destination, select.POLLIN)

    def _has_input(self) -> bool:
        """Waits for the source. False: the destination's server has sent an error, or has ended the session."""
        while True:
            ready = [descriptor for descriptor, _ in self._inputs.poll(self._milliseconds_left())]
            if not ready:
                raise self._lost(f"not everything was sent within {self._timeout_seconds:g} s")
            if self._destination.fileno() in ready and not self._drop_notices():
                if self._peek(1) in (b"E", b""):
                    return False
                self._inputs.unregister(self._destination)  # a setting that changed: it stays there for libpq
            if self._source.fileno() in ready:
                return True

    def _drop_notices(self) -> bool:
        """Reads the notices that the destination's server has sent. False: the next message there is none.

        A server that can send no more takes no more: a trigger that raises a warning for each row would stop both.
        """
        while True:
            head = self._peek(_HEAD_BYTES)
            if not head:
                return False
            if len(head) < _HEAD_BYTES and head[:1] in _DROPPED:
                self._wait_for_more()
                continue
            if head[:1] not in _DROPPED:
                return False
            _, length = _read_head(head)
            left = 1 + length
            while left:
                try:
                    dropped = self._destination.recv(min(left, BUFFER_BYTES))
                except BlockingIOError:
                    self._wait_for_more()
                    continue
                if not dropped:
                    return False
                left -= len(dropped)
            if not self._is_readable():
                return True

    def _is_readable(self) -> bool:
        return bool(select.select([self._destination], [], [], 0)[0])

    def _wait_for_more(self) -> None:
        """Waits for the rest of a notice."""
        inputs = select.poll()
        inputs.register(self._destination, select.POLLIN)
        if not inputs.poll(self._milliseconds_left()):
            raise self._cut_frozen("a notice was not sent to its end")

    def _peek(self, size: int) -> bytes:
        try:
            return self._destination.recv(size, socket.MSG_PEEK)
        except OSError:
            return b""  # libpq meets it too

    def _receive(self) -> None:
        try:
            with memoryview(self._buffer) as view:
                received = self._source.recv_into(view[self._filled :])
        except OSError as error:
            raise self._lost(str(error)) from error
        if not received:
            raise self._lost("server closed the connection unexpectedly")
        self._filled += received

    def _hand_on(self) -> None:
        """Hands on the rows that are whole, reads the other messages, and keeps the beginning of the one that is not whole."""
        start = self._hand_rows_on(0)
        while (end := self._message_end(start)) <= self._filled:
            self._read_message(self._buffer[start : start + 1], self._buffer[start + _HEAD_BYTES : end])
            start = self._hand_rows_on(end)
        self._keep(start, end - start)

    def _keep(self, start: int, size: int) -> None:
        """Keeps what is not handed on yet, from `start` on, in a buffer that has room for `size` bytes.

        A row of 16 MiB comes in a hundred reads: it is copied once, not with each of them.
        """
        rest = self._filled - start
        with memoryview(self._buffer) as view:
            if size > len(view):
                longer = _pages(size)
                longer[:rest] = view[start : self._filled]
                self._buffer = longer
            elif start:
                view[:rest] = view[start : self._filled]
        self._filled = rest

    def _hand_rows_on(self, start: int) -> int:
        """Returns where the rows end that are whole."""
        position, row_count = start, 0
        buffer, filled = self._buffer, self._filled
        while position + _HEAD_BYTES <= filled:
            kind, length = _read_head(buffer, position)
            end = position + 1 + length
            if end > filled or kind != b"d" or length < 4:
                break
            position = end
            row_count += 1
        if row_count:
            if self._expected != b"c":
                raise self._unexpected(b"d")
            if not self.byte_count:
                reach("slice.piping", None)
            self.byte_count += position - start - _HEAD_BYTES * row_count
            with memoryview(buffer) as view:
                self._send(self._destination, view[start:position])
        return position

    def _message_end(self, start: int) -> int:
        """Where the message ends that begins at `start`; of one whose head is not there yet, where that ends."""
        if start + _HEAD_BYTES > self._filled:
            return start + _HEAD_BYTES
        kind, length = _read_head(self._buffer, start)
        if not 4 <= length <= (LONGEST_ROW_BYTES if kind == b"d" else LONGEST_MESSAGE_BYTES):
            raise self._unexpected(kind)
        return int(start + 1 + length)

    def _read_message(self, kind: bytes | bytearray, body: bytes | bytearray) -> None:
        if kind == b"E":
            raise SourceFailed(ServerError(bytes(body)))
        if kind in _ASIDE:
            return
        if kind != self._expected:
            raise self._unexpected(bytes(kind))
        self._expected = _NEXT_MESSAGE[self._expected]
        self.has_sent_all = kind == b"Z"

    def _send(self, link: socket.socket, data: memoryview) -> None:
        """Sends all of it. What a destination's server that has ended the session does not take is not missed: libpq tells the end."""
        sent = 0
        while sent < len(data):
            try:
                sent += link.send(data[sent:])
            except BlockingIOError:
                self._wait_until_writable(link)
            except OSError as error:
                if link is self._source:
                    raise self._lost(str(error)) from error
                return

    def _wait_until_writable(self, link: socket.socket) -> None:
        outputs = select.poll()
        outputs.register(link, select.POLLOUT if link is self._source else select.POLLOUT | select.POLLIN)
        while ready := outputs.poll(self._milliseconds_left()):
            if ready[0][1] & ~select.POLLIN:
                return
            if not self._drop_notices():
                outputs.modify(link, select.POLLOUT)  # an error, or the end: libpq reads it
        if link is self._source:
            raise self._lost(f"the question was not taken within {self._timeout_seconds:g} s")
        raise self._cut_frozen("not everything was taken")

    def _cut_frozen(self, what: str) -> DestinationFrozen:
        """Cuts the destination's session, which is within a message: no end of the COPY would be understood."""
        self._destination.shutdown(socket.SHUT_RDWR)
        return DestinationFrozen(f"{what} within {self._timeout_seconds:g} s")

    def _milliseconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic()) * 1000

    def _lost(self, what: str) -> SourceFailed:
        return SourceFailed(psycopg2.OperationalError(what))

    def _unexpected(self, kind: bytes) -> SourceFailed:
        return self._lost(f"the server sent a message of the kind {kind!r} during COPY, expected {self._expected!r}")
