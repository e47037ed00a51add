"""The matrix: which fault is injected at which failpoint. The rules are tables; a new failpoint gets its cells from its store's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch

from relaybox.failpoints import ADOPT_FAILPOINTS, DERIVE_FAILPOINTS, FAILPOINTS, PROCESSING_FAILPOINTS, TOPIC_FAILPOINTS
from tests.faults.faults import FAULTS

STEPS: Mapping[str, str] = {
    **FAILPOINTS,
    **PROCESSING_FAILPOINTS,
    **TOPIC_FAILPOINTS,
    **DERIVE_FAILPOINTS,
    **ADOPT_FAILPOINTS,
}
"""The failpoints of the matrix: all that a driver of a hop or of a derivation reaches, or a command of adoption."""

OF_ONE_KIND = {
    **dict.fromkeys(PROCESSING_FAILPOINTS, "processed"),
    **dict.fromkeys(TOPIC_FAILPOINTS, "topics"),
    **dict.fromkeys(DERIVE_FAILPOINTS, "derived"),
    **dict.fromkeys(ADOPT_FAILPOINTS, "adopted"),
}
"""Those that only one kind of hop has, a derivation, or a command of adoption."""


@dataclass(frozen=True)
class Cell:
    """A fault at a failpoint of a hop. Its kind is what it reads, `outbox` or `log`, or why it is another one.

    A hop of kind `processed` reads a log and settles what subscriptions have acknowledged; one of kind `topics` reads an outbox,
    and its topics come by subscription. Of kind `derived` no hop is under test, but a derivation at the store where a hop ends.
    Of kind `adopted` the producers write into adopted tables; a command of adoption is under test, or the hop while a backlog is moved.
    """

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
    "raise_53100": ("*.made", "*.counted", "*.copied", "*.accepted", "*.published", "*.decided", "*.begun", "*.added"),
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
    "cancel_destination_derivation": ("derive_version.committed",),
    "cancel_destination_derivation_attempt": ("derive.copied",),
    "cancel_destination_outbox": ("derive.copied",),
}
"""Fault -> failpoints at which it is injected."""

AT_THE_STORE: Mapping[str, tuple[str, ...]] = {
    "crash": ("*",),
    "terminate": ("*",),
    "reset": ("*.committing", "slice.*", "derive.*"),
    "black_hole": ("*.locked", "*.committing", "slice.piping", "publish.published"),
    "deaf": ("*.committing",),
    "cut_commit": ("*.committing",),
    "break_stream": ("slice.connected", "derive.begin"),
}
"""Fault -> failpoints at which it is injected into the store that the step works in."""

ON_A_LOG: Mapping[str, tuple[str, ...]] = {
    "kill_driver": ("plan.*", "slice.*", "publish.*", "confirm.*", "settle.*"),
    "zombie": ("plan.locked", "plan.committing", "slice.accepted", "slice.committed", "publish.committing"),
    "crash_*": ("plan.committed", "slice.piping", "publish.committing", "confirm.committing"),
    "cut_commit_*": ("log_segments.*", "plan.*", "slice.*", "publish.*", "confirm.*", "settle.*"),
    "break_stream_*": ("slice.*",),
}
"""Cells run once more for a hop that reads a log; planning and reading differ there."""

WHEN_PROCESSED: Mapping[str, tuple[str, ...]] = {
    "kill_driver": ("settle.recorded", "settle.committ*"),
    "duplicate": ("settle.recorded",),
    "zombie": ("settle.committing",),
    "crash_*": ("settle.recorded", "settle.committ*"),
    "cut_commit_*": ("settle.*",),
}
"""Cells run once more for a hop that settles what subscriptions have acknowledged; more is written there."""

WHEN_ADOPTED: Mapping[str, tuple[str, ...]] = {
    "kill_driver": ("outbox_seg*.committing", "outbox_seal.committed", "plan.counted", "slice.copied"),
    "zombie": ("plan.recorded", "slice.committing"),
    "crash_source": ("outbox_seal.sealed", "plan.locked", "plan.committ*", "slice.piping", "confirm.committing"),
    "restart_source": ("plan.committed",),
    "terminate_source": ("plan.counted", "slice.connected"),
    "cut_commit_source": ("plan.committing",),
}
"""Cells run once more while the producers write into adopted tables, and the backlog of one of them is half moved."""


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


FORGET_STORE_IDS = """
    with leaving as (update relaybox_internal.hop_out set destination_id = null),
    arriving as (update relaybox_internal.hop_in set source_id = null)
    select
"""
"""As in a store that an older version made: no hop has recorded the store at its other end."""


def is_first_meeting(failpoint: str) -> bool:
    """Only the first transfer of a hop reaches it, or the first after FORGET_STORE_IDS."""
    return "_met." in failpoint


def sides(failpoint: str) -> tuple[str, ...]:
    """The clusters in which the step works, as STEPS says: source, destination, or both. A derivation has one store, the destination; so has an adoption, the source."""
    site = STEPS[failpoint].split(":")[0]
    store = "source" if failpoint in ADOPT_FAILPOINTS else "destination"
    return {"both": ("source", "destination"), "store": (store,)}.get(site, (site,))


def is_of_a_task(failpoint: str) -> bool:
    """Whether a task of a derivation reaches it: its session is one of ADBC, on which a failpoint can't raise."""
    return failpoint.startswith("derive.")


def all_cells() -> tuple[Cell, ...]:
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    for failpoint in STEPS:
        for fault in FAULTS:
            if _strikes(fault, failpoint):
                yield from (Cell(failpoint, fault, kind) for kind in _kinds(fault, failpoint))


def _strikes(fault: str, failpoint: str) -> bool:
    if failpoint in DERIVE_FAILPOINTS and (fault == "restart_source" or (is_of_a_task(failpoint) and fault.startswith("raise_"))):
        return False
    if failpoint in ADOPT_FAILPOINTS and fault == "restart_destination":
        return False
    family, _, side = fault.rpartition("_")
    at_the_store = side in sides(failpoint) and _matches(failpoint, AT_THE_STORE.get(family, ()))
    return at_the_store or _matches(failpoint, ANYWHERE.get(fault, ()))


def _kinds(fault: str, failpoint: str) -> Iterator[str]:
    yield OF_ONE_KIND.get(failpoint, "outbox")
    for kind, rules in (("log", ON_A_LOG), ("processed", WHEN_PROCESSED), ("adopted", WHEN_ADOPTED)):
        if any(fnmatch(fault, faults) and _matches(failpoint, patterns) for faults, patterns in rules.items()):
            yield kind


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
