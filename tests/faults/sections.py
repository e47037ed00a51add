"""What `python -m tests.faults` runs: named sections of jobs. Other levels of tests add theirs to SECTIONS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.cell_run import CellResult, Injection, run_cell
from tests.faults.cells import Cell, all_cells
from tests.faults.change_cells import change_cells, restore_cells
from tests.faults.change_jobs import run_change_job
from tests.faults.login_cells import all_login_cells, run_login_cell
from tests.faults.pair_run import run_pair
from tests.faults.pairs import draw_pair
from tests.faults.setting_cells import all_setting_cells, run_setting_cell
from tests.faults.sites import Clusters


@dataclass(frozen=True)
class Plan:
    """What was asked for on the command line."""

    seed: int
    pairs: int
    batch_rows: int


@dataclass(frozen=True)
class Job:
    """One cell: `run` takes the clusters and an empty directory. `expected_hits` failpoints must be reached."""

    section: str
    name: str
    expected_hits: int
    run: Callable[[Clusters, Path], CellResult]

    @property
    def key(self) -> str:
        return f"{self.section}: {self.name}"


def matrix(plan: Plan) -> Iterator[Job]:
    """Every cell of the matrix in which a hop is under test."""
    return (_cell_job("matrix", cell, plan) for cell in all_cells() if cell.kind not in ("derived", "adopted"))


def derivations(plan: Plan) -> Iterator[Job]:
    """Every cell of the matrix in which a derivation is under test."""
    return (_cell_job("derivations", cell, plan) for cell in all_cells() if cell.kind == "derived")


def adoptions(plan: Plan) -> Iterator[Job]:
    """Every cell of the matrix in which the producers write into adopted tables."""
    return (_cell_job("adoptions", cell, plan) for cell in all_cells() if cell.kind == "adopted")


def pairs(plan: Plan) -> Iterator[Job]:
    """Random pairs of faults, changes, restores and settings, one for each seed from the plan's on."""
    for seed in range(plan.seed, plan.seed + plan.pairs):
        pair = draw_pair(seed)
        yield Job("pairs", str(pair), 2, partial(run_pair, pair, batch_rows=plan.batch_rows))


def changes(_: Plan) -> Iterator[Job]:
    """A relaybox.yaml that changes while a driver is at a failpoint."""
    for cell in change_cells():
        yield Job("changes", str(cell), 1, partial(run_change_job, cell))


def restores(_: Plan) -> Iterator[Job]:
    """One, two or all stores restored when a driver was killed at a failpoint, and the runbook's repair."""
    for cell in restore_cells():
        yield Job("restores", str(cell), 1, partial(run_change_job, cell))


def _cell_job(section: str, cell: Cell, plan: Plan) -> Job:
    return _job(section, str(cell), [Injection(cell.failpoint, cell.fault)], plan, kind=cell.kind, seed=plan.seed)


def _job(section: str, name: str, injections: Sequence[Injection], plan: Plan, *, kind: str, seed: int) -> Job:
    return Job(
        section,
        name,
        len(injections),
        partial(_run, name, injections, kind=kind, batch_rows=plan.batch_rows, seed=seed),
    )


def _run(
    name: str, injections: Sequence[Injection], sides: Clusters, directory: Path, *, kind: str, batch_rows: int, seed: int
) -> CellResult:
    return run_cell(name, injections, sides, directory, kind=kind, batch_rows=batch_rows, seed=seed)


def settings(plan: Plan) -> Iterator[Job]:
    """Every setting, in force in each way."""
    for cell in all_setting_cells():
        run = partial(run_setting_cell, cell, batch_rows=plan.batch_rows, seed=plan.seed)
        yield Job("settings", str(cell), 1, run)


def logins(plan: Plan) -> Iterator[Job]:
    """The driver's password or one of its rights, taken at a step and given back."""
    for cell in all_login_cells():
        run = partial(run_login_cell, cell, batch_rows=plan.batch_rows, seed=plan.seed)
        yield Job("logins", str(cell), 1, run)


SECTIONS: Mapping[str, Callable[[Plan], Iterator[Job]]] = {
    "matrix": matrix,
    "derivations": derivations,
    "adoptions": adoptions,
    "pairs": pairs,
    "settings": settings,
    "logins": logins,
    "changes": changes,
    "restores": restores,
}
