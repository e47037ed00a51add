"""The cells of changed files and of restored stores as jobs of `python -m tests.faults`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from relaybox.errors import RelayboxError
from tests.faults.cell_run import CellResult
from tests.faults.change_cells import ChangeCell, run_change_cell
from tests.faults.checker import Violation
from tests.faults.conservation import Breach
from tests.faults.restores import Databases
from tests.faults.sites import LAYOUTS, Clusters, Site, fresh_site
from tests.faults.stores import UNDISTURBED
from tests.support.world import World

BATCH_ROWS = 5

INVARIANTS = {"G3": "doubled", "G4": "dense_positions", "G5": "order", "G8": "conserved", "G12": "lost"}
"""What the checker calls a breach of the guarantee."""

Live = Callable[[World, Databases, Site, CellResult], None]


def run_change_job(cell: ChangeCell, sides: Clusters, directory: Path) -> CellResult:
    """Runs one cell in fresh stores."""

    def live(world: World, databases: Databases, _: Site, result: CellResult) -> None:
        result.messages = run_change_cell(cell, world, databases, directory)
        result.hits = 1

    return run_life(CellResult(str(cell), 1), live, sides, directory)


def run_life(result: CellResult, live: Live, sides: Clusters, directory: Path) -> CellResult:
    """Lives through something in fresh stores; what the account of the producers finds, and any other error, is in the result."""
    started = time.monotonic()
    with fresh_site(sides, "outbox", directory, batch_rows=BATCH_ROWS) as site:
        world = World(site.routes_file, UNDISTURBED)
        world.cut_small_segments()
        databases = {store: (sides.clusters[side], site.databases[store]) for store, side in LAYOUTS["outbox"].items()}
        try:
            live(world, databases, site, result)
        except Breach as breach:
            result.violations += violations_of(breach)
        except (AssertionError, RelayboxError) as error:
            result.problems.append(f"{type(error).__name__}: {error}")
    result.seconds = time.monotonic() - started
    result.recovery_seconds.append(result.seconds)
    return result


def violations_of(breach: Breach) -> Iterator[Violation]:
    """As the checker names them, so that the report counts them in its columns."""
    for text in breach.found:
        yield Violation(INVARIANTS[text.split(":")[0]], text)
