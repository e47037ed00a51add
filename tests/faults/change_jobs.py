"""The cells of changed files and of restored stores as jobs of `python -m tests.faults`."""

from __future__ import annotations

import time
from pathlib import Path

from relaybox.errors import RelayboxError
from tests.faults.cell_run import CellResult
from tests.faults.change_cells import ChangeCell, run_change_cell
from tests.faults.places import LAYOUTS, Clusters, fresh_place
from tests.world import World

BATCH_ROWS = 5


def run_change_job(cell: ChangeCell, sides: Clusters, directory: Path) -> CellResult:
    """Runs one cell in fresh stores; what it finds becomes a problem of the result."""
    started, result = time.monotonic(), CellResult(str(cell), 1)
    with fresh_place(sides, "outbox", directory, batch_rows=BATCH_ROWS) as place:
        world = World(place.routes_file)
        world.cut_small_segments()
        databases = {store: (sides.clusters[side], place.databases[store]) for store, side in LAYOUTS["outbox"].items()}
        try:
            result.messages = run_change_cell(cell, world, databases, directory)
            result.hits = 1
        except (AssertionError, RelayboxError) as error:
            result.problems.append(f"{type(error).__name__}: {error}")
    result.seconds = time.monotonic() - started
    result.recovery_seconds.append(result.seconds)
    return result
