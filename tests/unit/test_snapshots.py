"""A snapshot as a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.snapshots import Snapshot


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmin = draw(st.integers(1, 1000))
    xmax = xmin + draw(st.integers(0, 60))
    open_xids = draw(st.sets(st.integers(xmin, xmax - 1))) if xmax > xmin else set()
    return Snapshot(xmin, xmax, tuple(sorted(open_xids)))


@given(snapshots())
def test_printing_and_parsing_are_inverse(snapshot: Snapshot) -> None:
    """What Postgres prints is read back as the same value."""
    assert Snapshot.parse(str(snapshot)) == snapshot


@given(snapshots(), st.integers(1, 1200))
def test_a_transaction_is_seen_if_it_was_over(snapshot: Snapshot, xid: int) -> None:
    """Below xmin or begun before xmax and not open."""
    assert snapshot.sees(xid) == (xid < snapshot.xmax and xid not in snapshot.open_xids)


@pytest.mark.parametrize("text", ["", "1:2", "0:1:", "5:4:", "1:9:3,2", "1:9:2,2", "a:b:c", "1:2:3:4"])
def test_what_postgres_never_prints_is_refused(text: str) -> None:
    """No snapshot is guessed."""
    with pytest.raises(ValueError):
        Snapshot.parse(text)
