"""Rows of a log as bytes: through COPY's format and through Arrow they stay what they are."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaybox.errors import ContentDiffers
from relaybox.spark.archive import from_arrow, split, to_arrow
from relaybox.stores.binary_copy.log_rows import JSONB, LOG_COLUMNS, TEXT, UUID, CopyFile, RowsDigest, digest_rows, read_rows

_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).map(str.encode)
_NUMBERS = st.integers(-(2**63), 2**63 - 1).map(lambda number: struct.pack(">q", number))


def _field(name: str, oid: int) -> st.SearchStrategy[bytes | None]:
    if name == "epoch":
        return st.integers(-(2**31), 2**31 - 1).map(lambda number: struct.pack(">i", number))
    if name in {"log_position", "index", "sent_at"}:
        return _NUMBERS
    if oid == UUID:
        return st.binary(min_size=16, max_size=16)
    fields = {TEXT: _TEXTS, JSONB: _TEXTS.map(lambda text: b"\x01" + text)}.get(oid, st.binary(max_size=20))
    return fields if name in {"topic", "sender"} else st.none() | fields


ROWS = st.lists(st.tuples(*(_field(name, oid) for name, oid in LOG_COLUMNS)), max_size=8)


def as_copy(rows: list[tuple[bytes | None, ...]], size: int) -> bytes:
    file, parts = CopyFile(rows), []
    while part := file.read(size):
        parts.append(part)
    return b"".join(parts)


@settings(deadline=None)
@given(rows=ROWS, size=st.integers(1, 5000))
def test_rows_come_back_bit_by_bit(rows: list[tuple[bytes | None, ...]], size: int) -> None:
    """Any null, any text, any time (infinity is the largest number), in pieces of any size."""
    assert [tuple(row) for row in read_rows(io.BytesIO(as_copy(rows, size)))] == rows
    assert [tuple(row) for batch in to_arrow(rows) for row in from_arrow(batch)] == rows


@settings(deadline=None)
@given(rows=ROWS.filter(bool))
def test_a_digest_depends_on_every_row_and_on_no_order(rows: list[tuple[bytes | None, ...]]) -> None:
    assert digest_rows(rows) == digest_rows(rows[::-1]) == digest_rows(rows[:1]) + digest_rows(rows[1:])
    assert digest_rows(rows) != digest_rows([(*rows[0][:-1], b"\x01other"), *rows[1:]])
    assert digest_rows([]) == RowsDigest(0, 0)


def test_a_stream_that_is_cut_is_no_shorter_stream() -> None:
    whole = as_copy([(*(b"\0" * 8,) * 2, b"\0" * 4, b"\0" * 16, b"\0" * 8, b"t", b"s", *(None,) * 5)], 100)
    for length in range(len(whole)):
        with pytest.raises(ContentDiffers):
            list(read_rows(io.BytesIO(whole[:length])))


def test_ranges_cover_every_position_once() -> None:
    assert split(0, 9, 4) == [(0, 3), (4, 7), (8, 9)]
    assert split(10, 10) == [(10, 10)]
