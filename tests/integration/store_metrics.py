"""What a store tells a monitoring system, and moments put back so that it tells of hours."""

from __future__ import annotations

from typing import Any

from tests.support.streams import STORE
from tests.support.world import World

AGO = "now() - make_interval(secs => {})"
HOUR = 3600.0


def store_metrics(world: World, store: str = STORE) -> dict[tuple[str, ...], float]:
    """(metric, value of each label in the order of their names) -> value."""
    rows: list[tuple[str, dict[str, Any], float]] = world.query(
        store, "select metric, labels, value from relaybox_internal.store_metrics()"
    )
    found = {(metric, *(labels[name] for name in sorted(labels))): value for metric, labels, value in rows}
    assert len(found) == len(rows)
    return found


def put_back(world: World, column: str, hours: float, where: str = "true", *, store: str = STORE) -> None:
    """Puts moments, `table.column`, this number of hours back."""
    table, column = column.split(".")
    world.query(store, f"update relaybox_internal.{table} set {column} = {AGO.format(hours * HOUR)} where {where}")
