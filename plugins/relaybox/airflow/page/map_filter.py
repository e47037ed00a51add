"""Which hops of the map the user selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Query

if TYPE_CHECKING:
    from relaybox.airflow.page.map_drawing import DrawnHop

SearchRequest = Annotated[str, Query(max_length=100)]


@dataclass(frozen=True)
class MapFilter:
    """Empty fields want everything; `show` is a part of the name of a hop, a store or a topic, the others are whole names."""

    show: str = ""
    source: str = ""
    destination: str = ""
    health: str = ""

    @property
    def is_set(self) -> bool:
        return any((self.show, self.source, self.destination, self.health))

    def takes(self, drawn: DrawnHop) -> bool:
        hop = drawn.status.hop
        names = (hop.name, hop.source.name, hop.destination.name, *hop.topics)
        return (
            any(self.show.lower() in name.lower() for name in names)
            and self.source in ("", hop.source.name)
            and self.destination in ("", hop.destination.name)
            and self.health in ("", drawn.health)
        )


async def _filter(
    show: SearchRequest = "", source: SearchRequest = "", destination: SearchRequest = "", health: SearchRequest = ""
) -> MapFilter:
    return MapFilter(show.strip(), source.strip(), destination.strip(), health)


MapFilterDep = Annotated[MapFilter, Depends(_filter)]
