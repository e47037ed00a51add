"""The map: stores as bars from left to right, hops as cards between them, coloured by health. No line runs through a bar or a card.

Columns of stores and of cards take turns. A hop that passes columns has a lane of its own in each; lines bend only between columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup

from relaybox.airflow.page import formatting
from relaybox.airflow.page.svg import drawing, element, text

if TYPE_CHECKING:
    from relaybox.monitoring.status import HopStatus

STORE_WIDTH, CARD_WIDTH, CARD_HEIGHT = 130.0, 210.0, 74.0
GAP = 300.0  # between two columns of stores
LANE = CARD_HEIGHT + 22.0
PASSING = 24.0  # the lane of a line that passes a column
MARGIN = 16.0

NEED_SOMEBODY = frozenset({"stuck", "silent", "held"})
"""The health of hops that do not go on by themselves."""


@dataclass(frozen=True)
class DrawnHop:
    """A hop with what its card says. `health` is ok, busy, held, stuck or silent; `href` is where a click leads."""

    status: HopStatus
    health: str
    rate: float | None
    href: str

    @property
    def ends(self) -> tuple[str, str]:
        return self.status.hop.source.name, self.status.hop.destination.name


@dataclass(frozen=True)
class _Box:
    """Where something stands: its left edge, its upper edge, its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def draw_map(hops: Sequence[DrawnHop], silent_stores: frozenset[str], store_href: Callable[[str], str]) -> Markup:
    """All hops. A store stands to the right of those it receives from; a hop against that direction, or into its own store, goes back.

    `store_href`: where a click on a store leads.
    """
    columns = columns_of(hop.ends for hop in hops)
    count = max(columns.values(), default=-1) + 1
    stacks = [_stores_and_passing(column, columns, hops) for column in range(count)]
    gaps = [_cards_and_passing(gap, columns, hops) for gap in range(count)]
    height = max([LANE, *(sum(heights.values()) for heights in (*stacks, *gaps))])
    boxes = {
        key: box for column, stack in enumerate(stacks) for key, box in _stack(stack, _left(column), STORE_WIDTH, height).items()
    }
    for gap, heights in enumerate(gaps):
        ordered = _sorted_by_ends(heights, hops, boxes)
        boxes |= _stack(ordered, _left(gap) + STORE_WIDTH + (GAP - CARD_WIDTH) / 2, CARD_WIDTH, height)
    return drawing(
        element("defs", _arrow()),
        *(edge for hop in hops for edge in _edges(hop, columns, boxes)),
        *(_store(name, boxes[name, ""], store_href(name), silent=name in silent_stores) for name in columns),
        *(_card(hop, boxes["", hop.status.hop.name]) for hop in hops),
        width=map_width(hops),
        height=2 * MARGIN + height,
        label="Map of stores and hops",
        class_="map",
        has_links=True,
    )


def map_width(hops: Sequence[DrawnHop]) -> float:
    """Of the drawing, in pixels."""
    columns = columns_of(hop.ends for hop in hops)
    count = max(columns.values(), default=-1) + 1
    has_last_gap = any(_gap(hop, columns) == count - 1 for hop in hops)
    return 2 * MARGIN + count * (STORE_WIDTH + GAP) - (0 if has_last_gap or not count else GAP)


def columns_of(ends: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The column of each store: beyond those of all stores that send to it. A hop that would close a circle does not count."""
    senders: dict[str, set[str]] = {}
    for source, destination in ends:
        senders.setdefault(source, set())
        senders.setdefault(destination, set())
        if destination not in _before(source, senders):
            senders[destination].add(source)
    columns: dict[str, int] = {}

    def column(store: str) -> int:
        if store not in columns:
            columns[store] = 1 + max((column(sender) for sender in senders[store]), default=-1)
        return columns[store]

    for store in senders:
        column(store)
    return columns


def _before(store: str, senders: Mapping[str, set[str]]) -> set[str]:
    """The store, and all whose messages can reach it."""
    found, to_do = set(), [store]
    while to_do:
        one = to_do.pop()
        if one not in found:
            found.add(one)
            to_do.extend(senders.get(one, ()))
    return found


_Key = tuple[str, str]
"""Of a box: a store and no hop, no store and the hop of a card, or the number of a column and the hop that passes it."""


def _stores_and_passing(column: int, columns: Mapping[str, int], hops: Sequence[DrawnHop]) -> dict[_Key, float]:
    """Heights: a store has a lane for each hop on its fuller side."""
    stores = {
        (store, ""): LANE * max(sum(hop.ends[0] == store for hop in hops), sum(hop.ends[1] == store for hop in hops))
        for store, at in columns.items()
        if at == column
    }
    return {**stores, **{(f"store {column}", hop.status.hop.name): PASSING for hop in hops if _passes(hop, columns, column)}}


def _cards_and_passing(gap: int, columns: Mapping[str, int], hops: Sequence[DrawnHop]) -> dict[_Key, float]:
    cards: dict[_Key, float] = {("", hop.status.hop.name): LANE for hop in hops if _gap(hop, columns) == gap}
    return {**cards, **{(f"card {gap}", hop.status.hop.name): PASSING for hop in hops if _passes(hop, columns, gap)}}


def _passes(hop: DrawnHop, columns: Mapping[str, int], column: int) -> bool:
    first, last = sorted(columns[store] for store in hop.ends)
    return first < column < last


def _gap(hop: DrawnHop, columns: Mapping[str, int]) -> int:
    """A hop's card stands right of the leftmost of its stores; that of a local hop right of its only one."""
    return min(columns[store] for store in hop.ends)


def _sorted_by_ends(heights: Mapping[_Key, float], hops: Sequence[DrawnHop], boxes: Mapping[_Key, _Box]) -> dict[_Key, float]:
    """In the order of the stores, so that few lines cross."""
    middles = {hop.status.hop.name: sum(boxes[store, ""].middle for store in hop.ends) for hop in hops}
    return {key: heights[key] for key in sorted(heights, key=lambda key: middles[key[1]])}


def _stack(heights: Mapping[_Key, float], x: float, width: float, whole_height: float) -> dict[_Key, _Box]:
    y = MARGIN + (whole_height - sum(heights.values())) / 2
    boxes = {}
    for key, height in heights.items():
        between = 0.0 if height == PASSING else LANE - CARD_HEIGHT
        boxes[key] = _Box(x, y + between / 2, width, height - between)
        y += height
    return boxes


def _left(column: int) -> float:
    return MARGIN + column * (STORE_WIDTH + GAP)


def _store(name: str, box: _Box, href: str, *, silent: bool) -> Markup:
    return element(
        "a",
        element(
            "g",
            element("rect", x=box.x, y=box.y, width=STORE_WIDTH, height=box.height, rx=10),
            text(name, box.x + STORE_WIDTH / 2, box.middle + 5, "name", "middle"),
            text("does not answer", box.x + STORE_WIDTH / 2, box.middle + 22, "small", "middle") if silent else "",
            class_="store silent" if silent else "store",
        ),
        href=href,
        aria_label=f"what doctor finds in store {name}",
    )


def _edges(hop: DrawnHop, columns: Mapping[str, int], boxes: Mapping[_Key, _Box]) -> Iterator[Markup]:
    name = hop.status.hop.name
    source, destination, card = boxes[hop.ends[0], ""], boxes[hop.ends[1], ""], boxes["", name]
    if source is destination:
        y, right = _nearest(source, card.middle), source.x + STORE_WIDTH
        yield _line([(right, y - 12), (card.x, card.middle - 12)], hop.health)
        yield _line([(card.x, card.middle + 12), (right + 3, y + 12)], hop.health, ends=True)
        return
    first, last = sorted(columns[store] for store in hop.ends)
    passed = [boxes[f"{kind} {column}", name] for column in range(first + 1, last) for kind in ("store", "card")]
    through = [point for box in passed for point in ((box.x, box.middle), (box.x + box.width, box.middle))]
    west, east = (source, destination) if source.x < destination.x else (destination, source)
    short = [(west.x + STORE_WIDTH, _nearest(west, card.middle)), (card.x, card.middle)]
    far = through[-1][1] if through else card.middle
    long = [(card.x + CARD_WIDTH, card.middle), *through, (east.x, _nearest(east, far))]
    if west is source:
        yield _line(short, hop.health)
        yield _line([*long[:-1], (east.x - 3, long[-1][1])], hop.health, ends=True)
    else:
        yield _line(long[::-1], hop.health)
        yield _line([(card.x, card.middle), (west.x + STORE_WIDTH + 3, short[0][1])], hop.health, ends=True)


def _nearest(store: _Box, y: float) -> float:
    """Where a line meets a store's side: level with where it comes from, if the store is there."""
    return min(max(y, store.y + CARD_HEIGHT / 2), store.y + store.height - CARD_HEIGHT / 2)


def _line(points: Sequence[tuple[float, float]], health: str, *, ends: bool = False) -> Markup:
    """Through these points: bent between columns, straight where it passes one, which is between each two of the others."""
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        middle = (x1 + x2) / 2
        bent = f" C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
        path += bent if number % 2 == 0 else f" L{x2:.1f},{y2:.1f}"
    return element("path", d=path, class_=f"edge {health}", marker_end="url(#arrow)" if ends else None)


def _card(hop: DrawnHop, box: _Box) -> Markup:
    status, x, y = hop.status, box.x, box.y
    return element(
        "a",
        element(
            "g",
            element("rect", x=x, y=y, width=CARD_WIDTH, height=CARD_HEIGHT, rx=10),
            element("circle", cx=x + 16, cy=y + 17, r=5),
            text(status.hop.name, x + 28, y + 22, "name"),
            text(formatting.rate(hop.rate), x + CARD_WIDTH - 12, y + 22, "small", "end"),
            text(formatting.lag(status), x + 12, y + 43),
            # the lag tells ok from busy, a word the others: no state is told by its colour only
            text(hop.health, x + CARD_WIDTH - 12, y + 43, "small", "end") if hop.health in NEED_SOMEBODY else "",
            text(formatting.ratios(status), x + 12, y + 62, "small"),
            class_=f"card {hop.health}",
        ),
        href=hop.href,
        aria_label=f"hop {status.hop.name}: {hop.health}",
    )


def _arrow() -> Markup:
    return element(
        "marker",
        element("path", d="M0,0 L8,4 L0,8 z"),
        id="arrow",
        markerWidth=8,
        markerHeight=8,
        refX=7,
        refY=4,
        orient="auto",
    )
