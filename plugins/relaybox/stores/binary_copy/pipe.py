"""Pipes one COPY TO into one COPY FROM, as bytes: frame by frame (frame_relay), or row by row where a session is encrypted.

Row by row, psycopg2 on both ends of an os.pipe was the fastest way measured.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Literal, NamedTuple

import psycopg2

from relaybox.failpoints import reach
from relaybox.stores.binary_copy.frame_relay import FrameRelay, SourceFailed, is_plain
from relaybox.stores.sessions.answer_limits import cut_session
from relaybox.stores.sessions.connections import translate

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection
    from psycopg2.sql import Composable

    from relaybox.stores.sessions.store_session import StoreSession

PIPE_BYTES = 1 << 20


class SendingFailed(Exception):
    """The COPY TO side failed; `error` is what its store said."""

    def __init__(self, error: psycopg2.Error) -> None:
        super().__init__(str(error))
        self.error = error


class Piped(NamedTuple):
    """What the destination took; and whether whole frames were handed on, or rows of an encrypted session."""

    row_count: int
    byte_count: int
    unit: Literal["frames", "rows"]


def pipe_copy(
    source: Connection, copy_to: Composable | str, destination: Connection, copy_from: Composable | str, *, timeout_seconds: float
) -> Piped:
    """Runs both statements against each other, in the callers' transactions.

    Raises:
        SendingFailed: the source's error, or it had not sent everything after `timeout_seconds`: a frozen source must not hold the
            destination without end. The destination's COPY was ended by us, its transaction is aborted. The source's session is cut.
        psycopg2.Error: the destination's error.
    """
    if is_plain(source) and is_plain(destination):
        return _pipe_frames(source, copy_to, destination, copy_from, timeout_seconds)
    return _pipe_rows(source, copy_to, destination, copy_from, timeout_seconds)


def _pipe_frames(
    source: Connection, copy_to: Composable | str, destination: Connection, copy_from: Composable | str, timeout_seconds: float
) -> Piped:
    query = copy_to if isinstance(copy_to, str) else copy_to.as_string(source)
    with closing(FrameRelay(source, query, destination, timeout_seconds=timeout_seconds)) as relay:
        try:
            with destination.cursor() as cursor:
                cursor.copy_expert(copy_from, relay)
                return Piped(cursor.rowcount, relay.byte_count, "frames")
        except (psycopg2.Error, SystemError) as error:
            cut_session(source)
            if isinstance(relay.failure, SourceFailed):
                raise SendingFailed(relay.failure.error) from None
            if relay.failure is not None:
                raise psycopg2.OperationalError(str(relay.failure)) from None
            raise _server_error(error) from None


def _pipe_rows(
    source: Connection, copy_to: Composable | str, destination: Connection, copy_from: Composable | str, timeout_seconds: float
) -> Piped:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    sender = CopySender(source, copy_to, write_end)
    receiver = _Receiver(read_end, sender, deadline=time.monotonic() + timeout_seconds)
    sender.start()
    try:
        with destination.cursor() as cursor:
            cursor.copy_expert(copy_from, receiver, size=PIPE_BYTES)
            row_count = cursor.rowcount
    except (psycopg2.Error, SystemError) as error:
        cut_session(source)
        if receiver.timed_out:
            raise SendingFailed(psycopg2.OperationalError(f"not everything was sent within {timeout_seconds:g} s")) from None
        if receiver.sender_failed:
            raise SendingFailed(sender.error) from None
        raise _server_error(error) from None
    finally:
        os.close(read_end)  # a sender that still writes ends with a broken pipe
        sender.join()
    return Piped(row_count, receiver.byte_count, "rows")


def pipe_sessions(
    source: StoreSession,
    copy_to: Composable | str,
    destination: StoreSession,
    copy_from: Composable | str,
    *,
    timeout_seconds: float,
) -> Piped:
    """As pipe_copy, between two stores: what went wrong is an error of ours, which names the store that it went wrong in.

    Raises:
        StoreUnreachable, StoreBusy, StoreFailed and others of connections.translate.
        psycopg2.errors.UniqueViolation: a collision at the destination, which is the caller's to judge.
    """
    try:
        return pipe_copy(source.connection, copy_to, destination.connection, copy_from, timeout_seconds=timeout_seconds)
    except SendingFailed as failed:
        raise translate(failed.error, store=source.store, doing=source.activity) from failed.error
    except psycopg2.errors.UniqueViolation:
        raise
    except psycopg2.Error as error:
        raise translate(error, store=destination.store, doing=destination.activity) from error


def _server_error(error: psycopg2.Error | SystemError) -> BaseException:
    """psycopg2 2.9 stumbles over a server that goes away during COPY FROM: the server's error is the cause of a SystemError."""
    return error.__cause__ if isinstance(error.__cause__, psycopg2.Error) else error


class CopySender(threading.Thread):
    """COPY TO into the write end of the pipe. `has_sent_all` is set before the pipe closes: an end of file alone proves nothing."""

    def __init__(self, source: Connection, copy_to: Composable | str, write_end: int) -> None:
        super().__init__(name="relaybox-pipe-sender", daemon=True)
        self._source, self._copy_to, self._write_end = source, copy_to, write_end
        self.has_sent_all = False
        self.error: psycopg2.Error = psycopg2.OperationalError("COPY at the source ended without an error message")

    def run(self) -> None:
        try:
            with os.fdopen(self._write_end, "wb", buffering=PIPE_BYTES) as file, self._source.cursor() as cursor:
                try:
                    cursor.copy_expert(self._copy_to, file)
                    self.has_sent_all = True
                except psycopg2.Error as error:
                    self.error = error
        except BrokenPipeError:
            pass  # the receiving side ended first, and it tells why


class _Receiver(io.RawIOBase):
    """The read end of the pipe as COPY FROM wants it. A failed sender fails the COPY: a cut stream must never look whole."""

    def __init__(self, read_end: int, sender: CopySender, *, deadline: float) -> None:
        super().__init__()
        self._read_end, self._sender, self._deadline = read_end, sender, deadline
        self.byte_count = 0
        self.timed_out = False
        self.sender_failed = False

    def read(self, size: int = -1, /) -> bytes:
        ready, _, _ = select.select([self._read_end], [], [], max(0.0, self._deadline - time.monotonic()))
        if not ready:
            self.timed_out = True
            raise TimeoutError("the source sent nothing before the deadline")
        data = os.read(self._read_end, size)
        if not data and not self._sender.has_sent_all:
            self.sender_failed = True
            raise ConnectionAbortedError("the source failed")
        if data and not self.byte_count:
            reach("slice.piping", None)
        self.byte_count += len(data)
        return data
