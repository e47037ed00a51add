"""The matrix: which fault strikes at which failpoint. The rules are tables; a new failpoint gets its cells from its store's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch

from relaybox.failpoints import FAILPOINTS
from tests.faults.faults import FAULTS


@dataclass(frozen=True)
class Cell:
    """A fault at a failpoint of a hop that reads an `outbox` or a `log`."""

    failpoint: str
    fault: str
    kind: str

    def __str__(self) -> str:
        return f"{self.failpoint}-{self.fault}-{self.kind}"


ANYWHERE: Mapping[str, str] = {
    "kill_driver": "*",
    "zombie": "*",
    "duplicate": "*",
    "raise_40001": "*",
    "raise_53100": "*",
    "raise_40P01": "*.committing",
    "raise_57P01": "*.committing",
    "restart_source": "*.committed",
    "restart_destination": "*.committed",
    "cancel_source_hop_out": "plan.begin",
    "cancel_source_batch": "plan.locked",
    "cancel_source_confirmation": "*.begin",
    "cancel_destination_hop_in": "publish.begin",
    "cancel_destination_receipt": "slice.copied",
}
"""Fault -> failpoints at which it strikes."""

AT_THE_STORE: Mapping[str, str] = {
    "crash": "*",
    "reset": "*",
    "black_hole": "*",
    "terminate": "*",
    "deaf": "*.committing",
    "cut_commit": "*.committing",
    "break_stream": "slice.connected",
    "cancel_copy": "slice.piping",
}
"""Fault -> failpoints at which it strikes the store that the step works in."""

IMPOSSIBLE: Mapping[str, tuple[str, ...]] = {
    "raise_*": ("slice.piping",),  # a COPY is running: the session can take no statement
    "cancel_source_confirmation": ("plan.begin", "slice.begin", "publish.begin", "settle.begin"),
}
"""What the tables above name and can't be: the step does not do what the fault strikes."""

ON_A_LOG: Mapping[str, tuple[str, ...]] = {
    "kill_driver": ("plan.*", "slice.*", "publish.*", "confirm.*", "settle.*"),
    "zombie": ("plan.*", "slice.*", "publish.*"),
    "crash_*": ("plan.committed", "slice.piping", "publish.committing", "confirm.committing"),
    "cut_commit_*": ("plan.*", "slice.*", "publish.*", "confirm.*"),
    "break_stream_*": ("slice.*",),
}
"""Cells run once more for a hop that reads a log; planning and reading differ there."""


def sides(failpoint: str) -> tuple[str, ...]:
    """The clusters in which the step works, as FAILPOINTS says: source, destination, or both."""
    place = FAILPOINTS[failpoint].split(":")[0]
    return ("source", "destination") if place == "both" else (place,)


def all_cells() -> tuple[Cell, ...]:
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    for failpoint in FAILPOINTS:
        for fault in FAULTS:
            if _strikes(fault, failpoint) and not _listed(IMPOSSIBLE, fault, failpoint):
                yield Cell(failpoint, fault, "outbox")
                if _listed(ON_A_LOG, fault, failpoint):
                    yield Cell(failpoint, fault, "log")


def _strikes(fault: str, failpoint: str) -> bool:
    family, _, side = fault.rpartition("_")
    at_the_store = side in sides(failpoint) and fnmatch(failpoint, AT_THE_STORE.get(family, ""))
    return at_the_store or fnmatch(failpoint, ANYWHERE.get(fault, ""))


def _listed(table: Mapping[str, tuple[str, ...]], fault: str, failpoint: str) -> bool:
    return any(
        fnmatch(fault, faults) and any(fnmatch(failpoint, pattern) for pattern in patterns) for faults, patterns in table.items()
    )
