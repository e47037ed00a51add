"""A map of many hops: a row per source, a column per destination, in each cell how many hops there are and the worst of their health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from relaybox.airflow.page.map_drawing import map_width
from relaybox.airflow.page.map_filter import HEALTH
from relaybox.airflow.page.svg import drawing, element, text

if TYPE_CHECKING:
    from relaybox.airflow.page.map_drawing import DrawnHop

MOST_DRAWN_HOPS = 40
MOST_DRAWN_WIDTH = 1_800.0
WIDTH = 1_280.0
LABELS, LARGEST_CELL, SMALLEST_CELL = 150.0, 46.0, 22.0
WORD_CELL = 40.0
"""Cells of this size have room for a word below the number."""
MARKS = {"stuck": "!", "silent": "?", "held": "=", "busy": "~"}
"""What stands beside the number in smaller cells: no state is told by its colour only."""


def is_too_large_to_draw(hops: Sequence[DrawnHop]) -> bool:
    """Whether cards and lines would tell less than a table."""
    return len(hops) > MOST_DRAWN_HOPS or map_width(hops) > MOST_DRAWN_WIDTH


def draw_matrix(hops: Sequence[DrawnHop], silent_stores: frozenset[str], href: Callable[[str, str], str]) -> Markup:
    """All hops.

    Args:
        hops: those that the user may see.
        silent_stores: are marked.
        href: where a click on a cell leads, of its source and destination.
    """
    sources, destinations = (sorted({hop.ends[end] for hop in hops}) for end in (0, 1))
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, (WIDTH - LABELS) / max(1, len(destinations))))
    cells: dict[tuple[str, str], list[DrawnHop]] = {}
    for hop in hops:
        cells.setdefault(hop.ends, []).append(hop)
    rows, columns = ({store: LABELS + number * cell for number, store in enumerate(ends)} for ends in (sources, destinations))
    return drawing(
        *(_row_label(store, at + cell / 2, silent=store in silent_stores) for store, at in rows.items()),
        *(_column_label(store, at + cell / 2, silent=store in silent_stores) for store, at in columns.items()),
        *_grid(len(rows), len(columns), cell),
        *(_cell(ends, found, columns[ends[1]], rows[ends[0]], cell=cell, href=href(*ends)) for ends, found in cells.items()),
        width=LABELS + cell * len(columns) + 4,
        height=LABELS + cell * len(rows) + 4,
        label="Hops by source and destination",
        class_="matrix",
        has_links=True,
    )


def _row_label(store: str, middle: float, *, silent: bool) -> Markup:
    label = text(_shortened(store, silent=silent), LABELS - 8, middle + 5, _label_class(silent=silent), "end")
    return element("g", element("title", f"from {store}"), label)


def _column_label(store: str, middle: float, *, silent: bool) -> Markup:
    turned = f"translate({middle + 5:.1f},{LABELS - 8:.1f}) rotate(-90)"
    shown = _shortened(store, silent=silent)
    label = element("text", shown, x=0, y=0, class_=_label_class(silent=silent), transform=turned)
    return element("g", element("title", f"to {store}"), label)


def _shortened(store: str, *, silent: bool) -> str:
    marked = f"{MARKS['silent']} {store}" if silent else store
    return marked if len(marked) <= 17 else marked[:16] + "…"


def _label_class(*, silent: bool) -> str:
    return "name silent" if silent else "name"


def _grid(row_count: int, column_count: int, cell: float) -> Iterator[Markup]:
    right, bottom = LABELS + column_count * cell, LABELS + row_count * cell
    for y in (LABELS + number * cell for number in range(row_count + 1)):
        yield element("line", x1=LABELS, y1=y, x2=right, y2=y, class_="grid")
    for x in (LABELS + number * cell for number in range(column_count + 1)):
        yield element("line", x1=x, y1=LABELS, x2=x, y2=bottom, class_="grid")


def _cell(ends: tuple[str, str], hops: Sequence[DrawnHop], x: float, y: float, *, cell: float, href: str) -> Markup:
    worst = min((hop.health for hop in hops), key=HEALTH.index)
    said = f"{ends[0]} → {ends[1]}: {len(hops)} {'hop' if len(hops) == 1 else 'hops'}, the worst is {worst}"
    return element(
        "a",
        element(
            "g",
            element("title", said),
            element("rect", x=x + 2, y=y + 2, width=cell - 4, height=cell - 4, rx=4),
            *_count(len(hops), worst, x + cell / 2, y + cell / 2, cell),
            class_=f"cell {worst}",
        ),
        href=href,
        aria_label=said,
    )


def _count(count: int, worst: str, x: float, y: float, cell: float) -> Iterator[Markup]:
    """The number of hops, with the worst of their health unless all are ok."""
    if worst not in MARKS:
        yield text(count, x, y + 5, "", "middle")
    elif cell < WORD_CELL:
        yield text(f"{count}{MARKS[worst]}", x, y + 5, "", "middle")
    else:
        yield text(count, x, y - 1, "", "middle")
        yield text(worst, x, y + 13, "small", "middle")
