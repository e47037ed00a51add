"""Which hops of the map the user selected. The selection is in the page's address, so a link to it can be shared."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Query

if TYPE_CHECKING:
    from relaybox.airflow.page.map_drawing import DrawnHop

HEALTH = ("stuck", "silent", "held", "busy", "ok")
"""The worst first."""

SearchRequest = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True)
class MapFilter:
    """Empty fields want everything; `show` is a part of the name of a hop, a store or a topic, the others are whole names.

    Attributes:
        store: at either end of a hop.
    """

    show: str = ""
    route: str = ""
    store: str = ""
    source: str = ""
    destination: str = ""
    health: str = ""

    @property
    def is_set(self) -> bool:
        return any(asdict(self).values())

    @property
    def parameters(self) -> dict[str, str]:
        """Of the page's address: those that are set."""
        return {name: value for name, value in asdict(self).items() if value}

    def takes(self, drawn: DrawnHop) -> bool:
        hop = drawn.status.hop
        names = (hop.name, hop.source.name, hop.destination.name, *hop.topics)
        return (
            any(self.show.lower() in name.lower() for name in names)
            and self.route in ("", hop.route)
            and self.store in ("", hop.source.name, hop.destination.name)
            and self.source in ("", hop.source.name)
            and self.destination in ("", hop.destination.name)
            and self.health in ("", drawn.health)
        )

    def missing(self, hops: Collection[DrawnHop]) -> Iterator[str]:
        """Sentences about what the filter names and no hop has: the link is older than relaybox.yaml, or another user's.

        Args:
            hops: all that the user may see. Of others not even the existence is told.
        """
        stores = {store for hop in hops for store in hop.ends}
        if self.route and self.route not in {hop.status.hop.route for hop in hops}:
            yield f"There is no route {self.route} that you may see."
        for store in dict.fromkeys(filter(None, (self.store, self.source, self.destination))):
            if store not in stores:
                yield f"No hop that you may see begins or ends at a store {store}."
        if self.health and self.health not in HEALTH:
            yield f"No hop has health {self.health}: it is one of {', '.join(HEALTH)}."


async def _filter(
    *,
    show: SearchRequest = "",
    route: SearchRequest = "",
    store: SearchRequest = "",
    source: SearchRequest = "",
    destination: SearchRequest = "",
    health: SearchRequest = "",
) -> MapFilter:
    return MapFilter(*(value.strip() for value in (show, route, store, source, destination, health)))


MapFilterDep = Annotated[MapFilter, Depends(_filter)]
