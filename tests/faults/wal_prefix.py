"""Power loss and lossy failover at any byte of the WAL: a store is recovered to a prefix of a recorded run, and all go on.

python -m tests.faults.wal_prefix --source 150 --destination 150 --seed 1 --result wal_prefixes.json

Half of the prefixes are below an acknowledged point. A prefix passes if everything goes on with nothing lost, doubled or
reordered, or if it stops with G11 and goes on so after the operator's repair. Run again with the same result file, it does
what is missing there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.prefixes import Outcome, choose_prefixes, others_at, try_prefix
from tests.faults.recorded_run import Recording, record_run
from tests.support.memory import fast_temporary_directory
from tests.support.world import STORES

PREFIXES_PER_MOMENT = 6
ROUNDS = 8
SIDES = {"source": STORES[:1], "destination": STORES[1:]}


@contextmanager
def recorded(*, seed: int, rounds: int) -> Iterator[tuple[Recording, Path]]:
    """A recorded run in a directory of its own, and that directory; PGSERVICEFILE names the run's services meanwhile."""
    before = os.environ.get("PGSERVICEFILE")
    with fast_temporary_directory("wal") as directory:
        os.environ["PGSERVICEFILE"] = str(directory / "services.conf")
        try:
            with record_run(directory, seed=seed, rounds=rounds) as recording:
                yield recording, directory
        finally:
            del os.environ["PGSERVICEFILE"]
            if before is not None:
                os.environ["PGSERVICEFILE"] = before


def try_prefixes(recording: Recording, directory: Path, side: str, *, first: int, count: int, seed: int) -> Iterator[Outcome]:
    """Prefixes number `first` .. `count` - 1 of a side; destinations take turns."""
    stores = SIDES[side]
    for number in range(first, count, PREFIXES_PER_MOMENT):
        group = number // PREFIXES_PER_MOMENT
        store = stores[group % len(stores)]
        prefixes = choose_prefixes(recording, store, count=min(PREFIXES_PER_MOMENT, count - number), seed=seed * 10_000 + group)
        with others_at(recording, directory, store=store, moment=prefixes[0].moment) as others:
            for prefix in prefixes:
                yield try_prefix(recording, directory, others, prefix)


def summarise(cells: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The counts of one side; `silent` must be 0."""
    return {
        "prefixes": len(cells),
        "below_acknowledged": sum(cell["prefix"]["below"] for cell in cells),
        "promoted": sum(cell["prefix"]["promote"] for cell in cells),
        "continued": sum(not cell["stopped"] for cell in cells),
        "stopped": sum(bool(cell["stopped"]) for cell in cells),
        "attested": sum(bool(cell["attested"]) for cell in cells),
        "reanchored": sum(bool(cell["reanchored"]) for cell in cells),
        "with_ghosts": sum(bool(cell["ghosts"]) for cell in cells),
        "silent": sum(bool(cell["violations"]) for cell in cells),
    }


def write_result(path: Path, *, seed: int, cells: dict[str, list[dict[str, Any]]]) -> None:
    """Counts of both sides, then every prefix; a reader sees the old file or the new one."""
    document = {"seed": seed, **{side: summarise(cells[side]) for side in SIDES}, "cells": cells}
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document, indent=1) + "\n")
    draft.replace(path)


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=int, default=150, help="prefixes of the source (150)")
    parser.add_argument("--destination", type=int, default=150, help="prefixes of the destinations (150)")
    parser.add_argument("--seed", type=int, default=1, help="decides the run's messages and all prefixes (1)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"length of the recorded run ({ROUNDS})")
    parser.add_argument("--result", type=Path, default=Path("wal_prefixes.json"), help="resumed when it exists")
    given = parser.parse_args(None if arguments is None else list(arguments))
    cells: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    if given.result.exists():
        known = json.loads(given.result.read_text())
        if known["seed"] != given.seed:
            parser.error(f"{given.result} is of seed {known['seed']}")
        # a moment is done whole or again
        cells = {side: done[: len(done) - len(done) % PREFIXES_PER_MOMENT] for side, done in known["cells"].items()}
    with recorded(seed=given.seed, rounds=given.rounds) as (recording, directory):
        print(f"recorded: {len(recording.moments)} moments, {len(recording.acknowledged)} messages acknowledged as durable")
        for side, count in (("source", given.source), ("destination", given.destination)):
            for outcome in try_prefixes(recording, directory, side, first=len(cells[side]), count=count, seed=given.seed):
                cells[side].append(outcome.document)
                write_result(given.result, seed=given.seed, cells=cells)
                print(f"{side} {len(cells[side])}/{count}: {_line(outcome)}", flush=True)
    print(json.dumps({side: summarise(cells[side]) for side in SIDES}, indent=1))
    return int(any(cell["violations"] for side in SIDES for cell in cells[side]))


def _line(outcome: Outcome) -> str:
    prefix = outcome.prefix
    lost = f"{outcome.lost_acknowledged} acknowledged lost, " if outcome.lost_acknowledged else ""
    repaired = "".join(
        f", {name} {word}"
        for names, word in ((outcome.attested, "attested"), (outcome.reanchored, "reanchored"))
        for name in names
    )
    end = (
        f"SILENT: {'; '.join(outcome.violations)}"
        if outcome.violations
        else "stopped" + repaired
        if outcome.stopped
        else "continued"
    )
    return f"{prefix.store} through {outcome.recovered}{', promoted' if prefix.promote else ''}: {lost}{end}"


if __name__ == "__main__":
    sys.exit(main())
