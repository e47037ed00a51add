"""A pg_snapshot as a value: what one moment of a database had committed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class Snapshot:
    """All transactions below `xmin` are over; those from `xmax` on had not begun; between them `open_xids` were running."""

    xmin: int
    xmax: int
    open_xids: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Reads `xmin:xmax:xip,xip`; raises ValueError for anything that Postgres would not print."""
        xmin, xmax, open_xids = text.split(":")
        snapshot = cls(int(xmin), int(xmax), tuple(int(xid) for xid in open_xids.split(",") if xid))
        if not 0 < snapshot.xmin <= snapshot.xmax or list(snapshot.open_xids) != sorted(set(snapshot.open_xids)):
            raise ValueError(f"not a snapshot: {text!r}")
        return snapshot

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.open_xids))}"

    def sees(self, xid: int) -> bool:
        """Whether the transaction was over at this moment (the rule of pg_visible_in_snapshot)."""
        if xid < self.xmin:
            return True
        if xid >= self.xmax:
            return False
        place = bisect_left(self.open_xids, xid)
        return place == len(self.open_xids) or self.open_xids[place] != xid
