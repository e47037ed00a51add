"""The hop that a path names, for those who may do with it what the request wants."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request, status

from relaybox.airflow.page.permissions import RightsDep
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.airflow.page.threads import in_page_thread
from relaybox.errors import ConfigurationError
from relaybox.routes import Hop


async def _gathering(request: Request) -> StoreOverview:
    gathering: StoreOverview = request.app.state.gathering
    return gathering


GatheringDep = Annotated[StoreOverview, Depends(_gathering)]


async def _readable_hop(gathering: GatheringDep, rights: RightsDep, route: str, number: int) -> Hop:
    try:
        hop = (await gathering.routes()).hop(f"{route}/{number}")
    except ConfigurationError as error:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such hop.") from error
    if not await in_page_thread(rights.may_read, hop):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not read this hop's DAG.")
    return hop


ReadableHop = Annotated[Hop, Depends(_readable_hop)]
"""The hop that the path names: 404 if there is none, 403 for who may not read it."""


async def _runnable_hop(hop: ReadableHop, rights: RightsDep) -> Hop:
    if not await in_page_thread(rights.may_run, hop):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not start runs of this hop's DAG.")
    return hop


RunnableHop = Annotated[Hop, Depends(_runnable_hop)]


async def _pausable_hop(hop: ReadableHop, rights: RightsDep) -> Hop:
    if not await in_page_thread(rights.may_pause, hop):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not change this hop's DAGs.")
    return hop


PausableHop = Annotated[Hop, Depends(_pausable_hop)]
