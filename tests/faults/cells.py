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


ANYWHERE: Mapping[str, tuple[str, ...]] = {
    "kill_driver": ("*",),
    "zombie": ("*",),
    "duplicate": ("*",),
    "raise_40001": ("*.begin", "*.recorded", "*.read"),
    "raise_53100": ("*.made", "*.counted", "*.copied", "*.accepted", "*.published", "*.decided", "*.begun"),
    "raise_40P01": ("*.locked", "*.connected", "*.committing"),
    "raise_57P01": ("*.committed",),
    "restart_source": ("*.committed",),
    "restart_destination": ("*.committed",),
    "cancel_source_hop_out": ("plan.begin",),
    "cancel_source_batch": ("plan.locked",),
    "cancel_source_confirmation": ("confirm.begin", "downstream.begin"),
    "cancel_source_outbox": ("slice.connected",),
    "cancel_destination_hop_in": ("publish.begin",),
    "cancel_destination_receipt": ("slice.copied",),
    "cancel_copy_destination": ("slice.piping",),
}
"""Fault -> failpoints at which it strikes."""

AT_THE_STORE: Mapping[str, tuple[str, ...]] = {
    "crash": ("*",),
    "terminate": ("*",),
    "reset": ("*.committing", "slice.*"),
    "black_hole": ("*.locked", "*.committing", "slice.piping", "publish.published"),
    "deaf": ("*.committing",),
    "cut_commit": ("*.committing",),
    "break_stream": ("slice.connected",),
}
"""Fault -> failpoints at which it strikes the store that the step works in."""

ON_A_LOG: Mapping[str, tuple[str, ...]] = {
    "kill_driver": ("plan.*", "slice.*", "publish.*", "confirm.*", "settle.*"),
    "zombie": ("plan.locked", "plan.committing", "slice.accepted", "slice.committed", "publish.committing"),
    "crash_*": ("plan.committed", "slice.piping", "publish.committing", "confirm.committing"),
    "cut_commit_*": ("log_segments.*", "plan.*", "slice.*", "publish.*", "confirm.*", "settle.*"),
    "break_stream_*": ("*",),
}
"""Cells run once more for a hop that reads a log; planning and reading differ there."""


REPAIRS: Mapping[str, str] = {"reanchor": "reanchor", "generation": "reanchor", "attest": "attest"}
"""Steps that only a repair takes, after the source's fingerprint has changed: the repair that the driver begins with."""

FOLLOWING: Mapping[str, str] = {"arrival": "publish.committed"}
"""Steps that only a driver takes that finds what a killed one left: where that one was killed."""


def repair(failpoint: str) -> str:
    """The repair during which a failpoint is reached; empty for the steps of a transfer."""
    return REPAIRS.get(failpoint.split(".", maxsplit=1)[0], "")


def killed_before(failpoint: str) -> str:
    """Where an earlier driver must have been killed for a failpoint to be reached; empty: nowhere."""
    return FOLLOWING.get(failpoint.split(".", maxsplit=1)[0], "")


def sides(failpoint: str) -> tuple[str, ...]:
    """The clusters in which the step works, as FAILPOINTS says: source, destination, or both."""
    place = FAILPOINTS[failpoint].split(":")[0]
    return ("source", "destination") if place == "both" else (place,)


def all_cells() -> tuple[Cell, ...]:
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    for failpoint in FAILPOINTS:
        for fault in FAULTS:
            if _strikes(fault, failpoint):
                yield Cell(failpoint, fault, "outbox")
                if _runs_on_a_log(fault, failpoint):
                    yield Cell(failpoint, fault, "log")


def _strikes(fault: str, failpoint: str) -> bool:
    family, _, side = fault.rpartition("_")
    at_the_store = side in sides(failpoint) and _matches(failpoint, AT_THE_STORE.get(family, ()))
    return at_the_store or _matches(failpoint, ANYWHERE.get(fault, ()))


def _runs_on_a_log(fault: str, failpoint: str) -> bool:
    return any(fnmatch(fault, faults) and _matches(failpoint, patterns) for faults, patterns in ON_A_LOG.items())


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
