"""OpenMetrics text for a scraper: of the hops whose DAG the scraper's login may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from relaybox.airflow.page.named_hops import GatheringDep
from relaybox.airflow.page.permissions import RightsDep
from relaybox.airflow.page.threads import in_page_thread
from relaybox.monitoring.metrics import CONTENT_TYPE, Sample, collect, render

if TYPE_CHECKING:
    from relaybox.airflow.page.permissions import Rights
    from relaybox.monitoring.overview import Overview
    from relaybox.routes import Routes

metrics = APIRouter()


@metrics.get("/metrics", include_in_schema=False)
async def read_metrics(gathering: GatheringDep, rights: RightsDep) -> Response:
    """What `relaybox metrics` writes, less what the login may not read. A store that does not answer is a metric too."""
    overview, store_metrics = await gathering.metrics()
    routes = await gathering.routes()
    return await in_page_thread(_response, VisibleMetrics(routes, rights), overview, store_metrics)


def _response(visible: VisibleMetrics, overview: Overview, store_metrics: Mapping[str, tuple[Sample, ...]]) -> Response:
    return Response(render(visible.of(collect(overview.status, store_metrics))), media_type=CONTENT_TYPE)


class VisibleMetrics:
    """Which samples a user may see; asks for the user's right on each hop once.

    Of a hop: who may read it. Of a route: who may read all its hops. Of a stream, its subscriptions and dead letters: who may read
    all hops of a route that has the stream; of a stream that no route has any more, all hops that arrive in the store. Of a store, and
    of the topics there that no hop reads: who may read a hop that begins or ends there.
    """

    def __init__(self, routes: Routes, rights: Rights) -> None:
        readable = {hop.name: rights.may_read(hop) for hop in routes.hops}
        self._rights = rights
        self._hops = readable
        self._routes = {route.name for route in routes.routes.values() if all(readable[hop.name] for hop in route.hops)}
        self._all_streams = {route.stream for route in routes.routes.values()}
        self._streams = {route.stream for route in routes.routes.values() if route.name in self._routes}
        self._stores = {store.name for hop in routes.hops if readable[hop.name] for store in (hop.source, hop.destination)}
        self._whole_stores = self._stores - {hop.destination.name for hop in routes.hops if hop.route not in self._routes}

    def of(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples that the user may see, in their order."""
        return [sample for sample in samples if self._shows(sample)]

    def _shows(self, sample: Sample) -> bool:
        labels = dict(sample.labels)
        match labels:  # each pattern takes what no earlier one took
            case {"hop": hop} | {"kind": "hop", "holder": hop}:
                return self._shows_hop(hop)
            case {"kind": "subscription", "store": store}:  # it has no label of its stream
                return store in self._whole_stores
            case {"route": route}:
                return route in self._routes
            case {"stream": stream, "store": store}:
                return self._shows_stream(stream, store)
            case {"table": table} if table != "outbox":
                return self._shows_hop(table)
        return labels["store"] in self._stores

    def _shows_stream(self, stream: str, store: str) -> bool:
        return stream in self._streams if stream in self._all_streams else store in self._whole_stores

    def _shows_hop(self, hop: str) -> bool:
        """A hop that no route has any more had a DAG as well."""
        if hop not in self._hops:
            self._hops[hop] = self._rights.may_read_named(hop)
        return self._hops[hop]
