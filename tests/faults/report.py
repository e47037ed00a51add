"""The reliability report: what was struck, what was found, in Markdown for people and in JSON for programs."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg2

import relaybox

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "lost": ("lost", "conserved", "orphaned_hops", "one_batch_each", "dense_positions", "derived_lost"),
    "doubled": ("doubled", "derived_doubled"),
    "out_of_order": (
        "order",
        "transaction_order",
        "log_order",
        "poll_skip",
        "nonmonotonic_poll",
        "disagreement",
        "derived_order",
    ),
    "false_confirmations": ("false_received", "false_settled", "confirmation_taken_back", "false_hearsay"),
    "otherwise_wrong": (
        *("invented", "aborted_read", "altered", "batch_chain", "batch_content", "arrivals"),
        *("undecided", "stream", "unfinished", "derived_otherwise", "derived_attempts"),
    ),
}
"""Column -> the invariants whose breaches it counts; each invariant of the checker is in one column."""


@dataclass(frozen=True)
class Row:
    """One finished cell, as it is kept in the state file."""

    section: str
    name: str
    seed: int
    hits: int
    expected_hits: int
    seconds: float
    recovery_seconds: float
    messages: int
    batches: int
    resumed: int
    violations: Mapping[str, int]
    problems: Sequence[str]

    @property
    def is_good(self) -> bool:
        return self.hits == self.expected_hits and not self.violations and not self.problems


def write_report(rows: Sequence[Row], path: Path, *, command: str, postgres: str, wal_prefixes: Path | None = None) -> None:
    """Writes `path` (Markdown) and the same beside it with the ending .json.

    Args:
        rows: the cells.
        path: of the Markdown.
        command: that made it.
        postgres: version of the clusters.
        wal_prefixes: result of `python -m tests.faults.wal_prefix`, for a section of its own.
    """
    facts = _facts(rows, command, postgres)
    if wal_prefixes is not None:
        sides = json.loads(wal_prefixes.read_text(encoding="utf-8"))
        facts["wal_prefixes"] = {name: sides[name] for name in ("seed", "source", "destination")}
    path.with_suffix(".json").write_text(json.dumps(facts | {"cells": [vars(row) for row in rows]}, indent=1), encoding="utf-8")
    path.write_text("\n".join(_lines(rows, facts)) + "\n", encoding="utf-8")


def _facts(rows: Sequence[Row], command: str, postgres: str) -> dict[str, object]:
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row.violations)
    messages = sum(row.messages for row in rows)
    recoveries = sorted(row.recovery_seconds for row in rows) or [0.0]
    return {
        "command": command,
        "relaybox": relaybox.__version__,
        "postgres": postgres,
        "python": platform.python_version(),
        "psycopg2": psycopg2.__version__.split()[0],
        "cells": len(rows),
        "good_cells": sum(row.is_good for row in rows),
        "hits": sum(row.hits for row in rows),
        "messages": messages,
        **{column: _sum(found, invariants) for column, invariants in COLUMNS.items()},
        "stopped_cells": sum(not row.is_good and not row.violations for row in rows),
        "violations": dict(found),
        "loss_rate_bound": 3 / messages if messages else 1.0,
        "recovery_median_seconds": round(median(recoveries), 3),
        "recovery_worst_seconds": round(recoveries[-1], 3),
    }


def _sum(found: Mapping[str, int], names: Iterable[str]) -> int:
    return sum(found.get(name, 0) for name in names)


def _lines(rows: Sequence[Row], facts: Mapping[str, object]) -> Iterable[str]:
    yield "# Reliability report"
    yield ""
    yield f"Made by `{facts['command']}` with Relaybox {facts['relaybox']}, Postgres {facts['postgres']}, Python {facts['python']},"
    yield f"psycopg2 {facts['psycopg2']}. Do not edit; run the command."
    yield ""
    yield "| section | cells | good | hits | messages | recovery, median | recovery, worst |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for section in dict.fromkeys(row.section for row in rows):
        yield _section_line(section, [row for row in rows if row.section == section])
    yield ""
    columns = (*COLUMNS, "stopped_cells")
    yield f"| {' | '.join(column.replace('_', ' ') for column in columns)} |"
    yield f"|{'--:|' * len(columns)}"
    yield f"| {' | '.join(str(facts[column]) for column in columns)} |"
    yield ""
    yield (
        f"With no loss among {facts['messages']:,} messages the loss rate is below {facts['loss_rate_bound']:.1e} "
        "(3/N) with 95 % confidence. The bound holds for faults of these kinds."
    )
    yield ""
    if isinstance(sides := facts.get("wal_prefixes"), Mapping):
        yield from _prefix_lines(sides)
    yield "## Cells"
    yield ""
    yield "The name of a cell has the failpoint, the fault, and the kind of hop: it reads an outbox or a log, settles what"
    yield "subscriptions have `processed`, or gets its `topics` by subscription. Of kind `derived` a derivation is under test. A cell of"
    yield "settings has the setting and its level; the driver is killed, or the setting changes under it."
    yield ""
    yield "| cell | seed | hits | batches | resumed | recovery s | outcome |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for row in rows:
        outcome = "good" if row.is_good else "; ".join([*row.problems, *row.violations]).replace("|", "/").replace("\n", " ")
        yield (
            f"| {row.name} | {row.seed} | {row.hits}/{row.expected_hits} | {row.batches} | {row.resumed} "
            f"| {row.recovery_seconds:.2f} | {outcome} |"
        )


def _prefix_lines(sides: Mapping[str, Mapping[str, int]]) -> Iterable[str]:
    yield "## Power loss and failover, at any byte of the WAL"
    yield ""
    yield f"A recorded run; each store is recovered to prefixes of its WAL (seed {sides['seed']}). Silent: messages lost, doubled,"
    yield "reordered or overwritten without a report (G11). After the repair all messages are checked again."
    yield ""
    columns = (
        "prefixes",
        "below_acknowledged",
        "promoted",
        "continued",
        "stopped",
        "attested",
        "reanchored",
        "with_ghosts",
        "silent",
    )
    yield f"| store | {' | '.join(column.replace('_', ' ') for column in columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for side in ("source", "destination"):
        yield f"| {side} | {' | '.join(str(sides[side][column]) for column in columns)} |"
    yield ""


def _section_line(section: str, rows: Sequence[Row]) -> str:
    recoveries = [row.recovery_seconds for row in rows]
    return (
        f"| {section} | {len(rows)} | {sum(row.is_good for row in rows)} | {sum(row.hits for row in rows)} "
        f"| {sum(row.messages for row in rows):,} | {median(recoveries):.2f} s | {max(recoveries):.2f} s |"
    )
