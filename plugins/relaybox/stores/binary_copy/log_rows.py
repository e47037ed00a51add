"""Rows of a log as bytes: what binary COPY sends and takes, and the hash that a store computes of each (relaybox_internal.log_digest).

A field is the binary form of its type, or None for null. Nothing is converted: what goes through here is bit by bit the same.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from psycopg2 import sql

from relaybox import errors

BIGINT, INTEGER, UUID, TIMESTAMPTZ, TEXT, JSONB, BYTEA = 20, 23, 2950, 1184, 25, 3802, 17
"""Numbers of types, the same in every Postgres."""

LOG_COLUMNS = (
    ("log_position", BIGINT),
    ("index", BIGINT),
    ("epoch", INTEGER),
    ("message_id", UUID),
    ("sent_at", TIMESTAMPTZ),
    ("topic", TEXT),
    ("sender", TEXT),
    ("key", TEXT),
    ("headers", JSONB),
    ("payload", TEXT),
    ("payload_bytes", BYTEA),
    ("clock", JSONB),
)
"""Name and type of each column, in the order of COPY and of relaybox_internal.log_digest."""

COLUMN_LIST = sql.SQL(", ").join(sql.Identifier(name) for name, _ in LOG_COLUMNS)
"""What every COPY of a log's rows names, of a hop's slice as of a detached segment."""

CopiedRow = Sequence[bytes | None]

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct(">i")
_COLUMN_COUNT = struct.pack(">h", len(LOG_COLUMNS))
_RECORD = struct.pack(">i", len(LOG_COLUMNS))
_TYPES = tuple(struct.pack(">i", oid) for _, oid in LOG_COLUMNS)
_HEADER = _SIGNATURE + struct.pack(">ii", 0, 0)
_TRAILER = struct.pack(">h", -1)
_ROWS_PER_CHUNK = 500


@dataclass(frozen=True)
class RowsDigest:
    """Count and content of rows, whatever their order."""

    row_count: int = 0
    hash_sum: int = 0

    def __add__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(self.row_count + other.row_count, self.hash_sum + other.hash_sum)


def digest_rows(rows: Iterable[CopiedRow]) -> RowsDigest:
    """What relaybox_internal.log_digest says of the same rows: the sum of the first 8 bytes of each row's md5, as signed numbers."""
    row_count = hash_sum = 0
    for row in rows:
        parts = [_RECORD]
        for type_, field in zip(_TYPES, row, strict=True):
            parts += (type_, _NULL) if field is None else (type_, _LENGTH.pack(len(field)), field)
        hashed = hashlib.md5(b"".join(parts), usedforsecurity=False).digest()
        hash_sum += int.from_bytes(hashed[:8], "big", signed=True)
        row_count += 1
    return RowsDigest(row_count, hash_sum)


def read_rows(file: IO[bytes]) -> Iterator[list[bytes | None]]:
    """The rows of a binary COPY of LOG_COLUMNS, one by one.

    Raises:
        ContentDiffers: the stream is cut, or has other columns.
    """
    if _read(file, len(_SIGNATURE)) != _SIGNATURE:
        raise errors.ContentDiffers("the store sent no binary COPY.")
    _read(file, 4)
    _read(file, _LENGTH.unpack(_read(file, 4))[0])
    while (count := _read(file, 2)) != _TRAILER:
        if count != _COLUMN_COUNT:
            raise errors.ContentDiffers(f"the store sent rows of {count!r} columns, expected {len(LOG_COLUMNS)}.")
        row: list[bytes | None] = []
        for _ in LOG_COLUMNS:
            (length,) = _LENGTH.unpack(_read(file, 4))
            row.append(None if length < 0 else _read(file, length))
        yield row


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise errors.ContentDiffers("the COPY of a store ended in the middle of a row.")
    return data


class CopyFile(io.RawIOBase):
    """Rows as a file that binary COPY FROM reads."""

    def __init__(self, rows: Iterable[CopiedRow]) -> None:
        super().__init__()
        self._chunks = _chunks(rows)
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, whatever is at hand; none at the end."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
        data, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return data


def _chunks(rows: Iterable[CopiedRow]) -> Iterator[bytes]:
    parts = [_HEADER]
    for number, row in enumerate(rows, start=1):
        parts.append(_COLUMN_COUNT)
        for field in row:
            parts += (_NULL,) if field is None else (_LENGTH.pack(len(field)), field)
        if number % _ROWS_PER_CHUNK == 0:
            yield b"".join(parts)
            parts = []
    yield b"".join([*parts, _TRAILER])
