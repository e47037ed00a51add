"""A map of many hops: a row per source, a column per destination, in each cell how many hops there are and the worst of their health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
MARKS = {"stuck": "!", "silent": "?", "held": "="}
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
    stores = sorted({store for hop in hops for store in hop.ends})
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, (WIDTH - LABELS) / max(1, len(stores))))
    cells: dict[tuple[str, str], list[DrawnHop]] = {}
    for hop in hops:
        cells.setdefault(hop.ends, []).append(hop)
    offsets = {store: LABELS + number * cell for number, store in enumerate(stores)}
    return drawing(
        *(label for store, at in offsets.items() for label in _labels(store, at + cell / 2, silent=store in silent_stores)),
        *_grid(offsets, cell),
        *(_cell(ends, found, offsets, cell, href(*ends)) for ends, found in cells.items()),
        width=LABELS + cell * len(stores) + 4,
        height=LABELS + cell * len(stores) + 4,
        label="Hops by source and destination",
        class_="matrix",
        has_links=True,
    )


def _labels(store: str, middle: float, *, silent: bool) -> Iterator[Markup]:
    class_ = "name silent" if silent else "name"
    marked = f"{MARKS['silent']} {store}" if silent else store
    shown = marked if len(marked) <= 17 else marked[:16] + "…"
    yield text(shown, LABELS - 8, middle + 5, class_, "end")
    turned = element(
        "text", shown, x=0, y=0, class_=class_, transform=f"translate({middle + 5:.1f},{LABELS - 8:.1f}) rotate(-90)"
    )
    yield element("g", element("title", f"to {store}"), turned)


def _grid(offsets: Mapping[str, float], cell: float) -> Iterator[Markup]:
    end = LABELS + cell * len(offsets)
    for at in (*offsets.values(), end):
        yield element("line", x1=LABELS, y1=at, x2=end, y2=at, class_="grid")
        yield element("line", x1=at, y1=LABELS, x2=at, y2=end, class_="grid")


def _cell(ends: tuple[str, str], hops: Sequence[DrawnHop], offsets: Mapping[str, float], cell: float, href: str) -> Markup:
    x, y = offsets[ends[1]], offsets[ends[0]]
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
    """The number of hops, with the worst of their health if it needs somebody."""
    if worst not in MARKS:
        yield text(count, x, y + 5, "", "middle")
    elif cell < WORD_CELL:
        yield text(f"{count}{MARKS[worst]}", x, y + 5, "", "middle")
    else:
        yield text(count, x, y - 1, "", "middle")
        yield text(worst, x, y + 13, "small", "middle")
