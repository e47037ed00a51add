"""The map's table of hops: its order and its groups, which are in the page's address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends

from relaybox.airflow.page.map_filter import HEALTH

if TYPE_CHECKING:
    from relaybox.airflow.page.map_drawing import DrawnHop
    from relaybox.monitoring.status import RouteStatus

Column = Literal["route", "store", "health", "waiting", "lag", "rate"]

_KEYS: Mapping[Column, Callable[[DrawnHop], Any]] = {
    "route": lambda drawn: (drawn.status.hop.route, drawn.status.hop.number),
    "store": lambda drawn: drawn.ends,
    "health": lambda drawn: HEALTH.index(drawn.health),
    "waiting": lambda drawn: drawn.status.lag_messages,
    "lag": lambda drawn: 0.0 if drawn.status.lag_messages == 0 else drawn.status.lag_seconds,
    "rate": lambda drawn: drawn.rate,
}
"""None: unknown, because a store does not answer."""

_LARGEST_FIRST: frozenset[Column] = frozenset({"waiting", "lag", "rate"})


@dataclass(frozen=True)
class HopOrder:
    """How the table is sorted and grouped.

    Attributes:
        sort: a column; empty: the order of relaybox.yaml.
        order: asc or desc; empty: the worst first, or by the alphabet.
        group: `route`, or empty.
    """

    sort: Column | Literal[""] = ""
    order: Literal["asc", "desc", ""] = ""
    group: Literal["route", ""] = ""

    @property
    def is_descending(self) -> bool:
        return self.order == "desc" or (not self.order and self.sort in _LARGEST_FIRST)

    @property
    def parameters(self) -> dict[str, str]:
        """Of the page's address: those that are set."""
        chosen = {"sort": self.sort, "order": self.order if self.sort else "", "group": self.group}
        return {name: value for name, value in chosen.items() if value}

    def after_click(self, column: Column) -> HopOrder:
        """The order that a click on a column's head leads to: a second click turns it around."""
        if column != self.sort:
            return HopOrder(column, "", self.group)
        return HopOrder(column, "asc" if self.is_descending else "desc", self.group)

    def aria_sort(self, column: Column) -> str | None:
        """What a screen reader says of a column's head; None: the table is not sorted by it."""
        if column != self.sort:
            return None
        return "descending" if self.is_descending else "ascending"

    def sorted(self, hops: Iterable[DrawnHop]) -> list[DrawnHop]:
        """Hops with an unknown value come last in both directions; equal ones stay in the order of relaybox.yaml."""
        if not self.sort:
            return list(hops)
        key = _KEYS[self.sort]
        known: list[DrawnHop] = []
        unknown: list[DrawnHop] = []
        for hop in hops:
            (unknown if key(hop) is None else known).append(hop)
        return [*sorted(known, key=key, reverse=self.is_descending), *unknown]


@dataclass(frozen=True)
class RouteGroup:
    """The hops of one route that are shown.

    Attributes:
        whole: of the whole route; None for a user who may not read every hop of it.
    """

    route: str
    hops: Sequence[DrawnHop]
    whole: RouteStatus | None

    @property
    def health(self) -> str:
        """The worst."""
        return min((hop.health for hop in self.hops), key=HEALTH.index)

    @property
    def waiting(self) -> int | None:
        """Messages that wait for one of the hops; None: unknown for one of them."""
        numbers = [hop.status.lag_messages for hop in self.hops]
        return None if None in numbers else sum(number for number in numbers if number is not None)


def group_by_route(hops: Iterable[DrawnHop], routes: Iterable[RouteStatus]) -> list[RouteGroup]:
    """A group per route, in the order of their first hops.

    Args:
        hops: sorted.
        routes: those of which the user may read every hop.
    """
    whole = {route.route.name: route for route in routes}
    groups: dict[str, list[DrawnHop]] = {}
    for hop in hops:
        groups.setdefault(hop.status.hop.route, []).append(hop)
    return [RouteGroup(route, found, whole.get(route)) for route, found in groups.items()]


async def _order(
    *, sort: Column | Literal[""] = "", order: Literal["asc", "desc", ""] = "", group: Literal["route", ""] = ""
) -> HopOrder:
    return HopOrder(sort, order, group)


HopOrderDep = Annotated[HopOrder, Depends(_order)]
