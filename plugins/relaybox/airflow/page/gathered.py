"""What the stores say, for the user of one request: only of hops whose DAG the user may read."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, HTTPException, Request, status

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.page.access import Rights, RightsDep
from relaybox.airflow.page.store_services import StoreServices
from relaybox.errors import ConfigurationError
from relaybox.monitoring.findings import Finding, Severity
from relaybox.monitoring.flow import HopFlow
from relaybox.monitoring.forecasts import Forecast, forecast_drain
from relaybox.monitoring.overview import Overview, read_overview
from relaybox.monitoring.status import HopStatus
from relaybox.routes import Hop, Route, Routes

KEPT_SECONDS = 2.0
"""Many viewers ask the stores once."""


@dataclass(frozen=True)
class Seen:
    """What one user sees: the overview, less what the user may not read."""

    overview: Overview
    hops: tuple[HopStatus, ...]
    findings: tuple[Finding, ...]

    def health(self, hop: HopStatus) -> str:
        """`silent`: a store does not answer; `stuck` or `held` by a finding; `busy`: messages are on their way; else `ok`."""
        if hop.lag_messages is None:
            return "silent"
        own = {finding.severity for finding in self.findings if finding.hop == hop.hop.name}
        own |= {finding.severity for finding in self.findings if finding.hop is None and hop.hop.name in finding.affected}
        for severity in (Severity.STUCK, Severity.HELD):
            if severity in own:
                return str(severity)
        return "busy" if hop.lag_messages else "ok"

    def hop(self, name: str) -> HopStatus:
        return next(hop for hop in self.hops if hop.hop.name == name)


def forecast(hop: HopStatus, flow: HopFlow) -> Forecast | None:
    """When the hop's backlog will be gone; None while a store is silent."""
    if hop.lag_messages is None:
        return None
    return forecast_drain(backlog=hop.lag_messages, oldest_seconds=hop.lag_seconds, moving_per_second=flow.moving_rows_per_second)


class Gathering:
    """Asks the stores for all users of this process."""

    def __init__(self) -> None:
        self._services = StoreServices()
        self._lock = threading.Lock()
        self._kept: tuple[float, Overview] | None = None

    def routes(self) -> Routes:
        """The routes of this deployment, read anew: a changed relaybox.yaml needs no restart. Stores are reachable from here on."""
        routes = read_routes()
        self._services.renew(routes.used_stores)
        return routes

    def overview(self, rights: Rights) -> Seen:
        """What all stores say, at most two seconds old."""
        with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_SECONDS:
                self._kept = (time.monotonic(), read_overview(self.routes()))
            overview = self._kept[1]
        hops = tuple(hop for hop in overview.status.hops if rights.may_read(hop.hop))
        return Seen(overview, hops, tuple(_for_user(overview, hops, rights)))

    def forget(self) -> None:
        """The next overview is asked for anew."""
        with self._lock:
            self._kept = None

    def readable_routes(self, rights: Rights) -> tuple[Route, ...]:
        """The routes all of whose hops the user may read: a message's way is shown whole or not at all."""
        return tuple(route for route in self.routes().routes.values() if all(rights.may_read(hop) for hop in route.hops))


def _gathering(request: Request) -> Gathering:
    gathering: Gathering = request.app.state.gathering
    return gathering


GatheringDep = Annotated[Gathering, Depends(_gathering)]


def _readable_hop(gathering: GatheringDep, rights: RightsDep, route: str, number: int) -> Hop:
    try:
        hop = gathering.routes().hop(f"{route}/{number}")
    except ConfigurationError:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such hop.") from None
    if not rights.may_read(hop):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not read this hop's DAG.")
    return hop


ReadableHop = Annotated[Hop, Depends(_readable_hop)]
"""The hop that the path names: 404 if there is none, 403 for who may not read it."""


def _runnable_hop(hop: ReadableHop, rights: RightsDep) -> Hop:
    if not rights.may_run(hop):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not start runs of this hop's DAG.")
    return hop


RunnableHop = Annotated[Hop, Depends(_runnable_hop)]


def _pausable_hop(hop: ReadableHop, rights: RightsDep) -> Hop:
    if not rights.may_pause(hop):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not change this hop's DAGs.")
    return hop


PausableHop = Annotated[Hop, Depends(_pausable_hop)]


def _for_user(overview: Overview, hops: tuple[HopStatus, ...], rights: Rights) -> list[Finding]:
    in_routes = {hop.hop.name for hop in overview.status.hops}
    readable = {hop.hop.name for hop in hops}
    readable |= {one.hop for one in overview.findings if one.hop and one.hop not in in_routes and rights.may_read_named(one.hop)}
    stores = {store.name for hop in hops for store in (hop.hop.source, hop.hop.destination)}
    runnable = {hop.hop.name for hop in hops if rights.may_run(hop.hop)}
    return [
        _without_statements(finding) if not runnable & {finding.hop, *finding.affected} else finding
        for finding in overview.findings
        if (finding.hop in readable if finding.hop else finding.store in stores)
    ]


def _without_statements(finding: Finding) -> Finding:
    """Statements hold what applications wrote into them: they are shown to those who may act, and to nobody else."""
    return replace(finding, blockers=tuple(replace(blocker, query="") for blocker in finding.blockers))
