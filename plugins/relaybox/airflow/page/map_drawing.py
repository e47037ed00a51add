"""The map: stores as bars from left to right, hops as cards between them, coloured by health."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from relaybox.airflow.page import words
from relaybox.airflow.page.svg import drawing, element, text

if TYPE_CHECKING:
    from relaybox.monitoring.status import HopStatus

STORE_WIDTH, CARD_WIDTH, CARD_HEIGHT = 130.0, 210.0, 74.0
GAP = 300.0  # between two columns of stores
LANE = CARD_HEIGHT + 22.0
MARGIN = 16.0


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
    """Where something stands: its left edge, its upper edge, its height."""

    x: float
    y: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def draw_map(hops: Sequence[DrawnHop], silent_stores: frozenset[str]) -> Markup:
    """All hops. A store stands to the right of those it receives from; a hop against that direction, or into its own store, goes back."""
    columns = columns_of(hop.ends for hop in hops)
    stacks = [_lanes_of_stores(column, columns, hops) for column in range(max(columns.values(), default=-1) + 1)]
    gaps = [[hop for hop in hops if _gap(hop, columns) == gap] for gap in range(len(stacks))]
    lanes = max([1, *(sum(stack.values()) for stack in stacks), *map(len, gaps)])
    stores = {name: box for column, stack in enumerate(stacks) for name, box in _stack(stack, _left(column), lanes)}
    cards = {
        name: box
        for gap, waiting in enumerate(gaps)
        for name, box in _stack(_sorted_cards(waiting, stores), _left(gap) + STORE_WIDTH + (GAP - CARD_WIDTH) / 2, lanes)
    }
    return drawing(
        element("defs", _arrow()),
        *(edge for hop in hops for edge in _edges(hop, stores, cards[hop.status.hop.name])),
        *(_store(name, box, silent=name in silent_stores) for name, box in stores.items()),
        *(_card(hop, cards[hop.status.hop.name]) for hop in hops),
        width=2 * MARGIN + len(stacks) * (STORE_WIDTH + GAP) - (0 if gaps and gaps[-1] else GAP),
        height=2 * MARGIN + lanes * LANE,
        label="Map of stores and hops",
        class_="map",
    )


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


def _lanes_of_stores(column: int, columns: Mapping[str, int], hops: Sequence[DrawnHop]) -> dict[str, int]:
    """How many lanes each store of a column needs: as many as hops on its fuller side."""
    return {
        store: max(sum(hop.ends[0] == store for hop in hops), sum(hop.ends[1] == store for hop in hops))
        for store, at in columns.items()
        if at == column
    }


def _gap(hop: DrawnHop, columns: Mapping[str, int]) -> int:
    """A hop's card stands right of the leftmost of its stores; that of a local hop right of its only one."""
    return min(columns[store] for store in hop.ends)


def _sorted_cards(hops: Sequence[DrawnHop], stores: Mapping[str, _Box]) -> dict[str, int]:
    """In the order of the stores on the left, so that few lines cross; one lane each."""
    ordered = sorted(hops, key=lambda hop: sum(stores[store].middle for store in hop.ends))
    return {hop.status.hop.name: 1 for hop in ordered}


def _stack(lanes: Mapping[str, int], x: float, of_lanes: int) -> Iterator[tuple[str, _Box]]:
    y = MARGIN + (of_lanes - sum(lanes.values())) * LANE / 2
    for name, count in lanes.items():
        yield name, _Box(x, y + (LANE - CARD_HEIGHT) / 2, (count - 1) * LANE + CARD_HEIGHT)
        y += count * LANE


def _left(column: int) -> float:
    return MARGIN + column * (STORE_WIDTH + GAP)


def _store(name: str, box: _Box, *, silent: bool) -> Markup:
    return element(
        "g",
        element("rect", x=box.x, y=box.y, width=STORE_WIDTH, height=box.height, rx=10),
        text(name, box.x + STORE_WIDTH / 2, box.middle + 5, "name", "middle"),
        text("does not answer", box.x + STORE_WIDTH / 2, box.middle + 22, "small", "middle") if silent else "",
        class_="store silent" if silent else "store",
    )


def _edges(hop: DrawnHop, stores: Mapping[str, _Box], card: _Box) -> Iterator[Markup]:
    source, destination = stores[hop.ends[0]], stores[hop.ends[1]]
    if source is destination:
        yield _curve(source.x + STORE_WIDTH, _nearest(source, card) - 12, card.x, card.middle - 12, hop.health)
        yield _curve(card.x, card.middle + 12, source.x + STORE_WIDTH + 3, _nearest(source, card) + 12, hop.health, ends=True)
    elif source.x < destination.x:
        yield _curve(source.x + STORE_WIDTH, _nearest(source, card), card.x, card.middle, hop.health)
        yield _curve(card.x + CARD_WIDTH, card.middle, destination.x - 3, _nearest(destination, card), hop.health, ends=True)
    else:
        yield _curve(source.x, _nearest(source, card), card.x + CARD_WIDTH, card.middle, hop.health)
        yield _curve(card.x, card.middle, destination.x + STORE_WIDTH + 3, _nearest(destination, card), hop.health, ends=True)


def _nearest(store: _Box, card: _Box) -> float:
    """Where a line meets a store's side: level with the card, if the store is there."""
    return min(max(card.middle, store.y + CARD_HEIGHT / 2), store.y + store.height - CARD_HEIGHT / 2)


def _curve(x1: float, y1: float, x2: float, y2: float, health: str, *, ends: bool = False) -> Markup:
    middle = (x1 + x2) / 2
    path = f"M{x1:.1f},{y1:.1f} C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
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
            text(words.rate(hop.rate), x + CARD_WIDTH - 12, y + 22, "small", "end"),
            text(words.lag(status), x + 12, y + 43),
            text(words.ratios(status), x + 12, y + 62, "small"),
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
