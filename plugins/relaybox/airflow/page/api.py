"""The JSON routes: what the pages are made of, and what their buttons do."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, status

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.airflow.page.access import RightsDep
from relaybox.airflow.page.airflow_api import AirflowApi, AirflowApiDep
from relaybox.airflow.page.documents import Document, flow_document, overview_document, streams_document
from relaybox.airflow.page.gathered import Gathering
from relaybox.airflow.page.named_hops import GatheringDep, PausableHop, ReadableHop, RunnableHop
from relaybox.airflow.page.search import WantedDep, search
from relaybox.airflow.page.threads import in_page_thread
from relaybox.airflow.page.visible import forecast
from relaybox.monitoring.documents import traces_document
from relaybox.routes import Hop

MINUTES = (15, 60, 360, 1440)
"""Windows that the page offers; the API takes any between the shortest and two weeks."""

Minutes = Annotated[int, Query(ge=5, le=60 * 24 * 14)]
MovedBy = Annotated[str | None, Query(max_length=500)]

api = APIRouter(prefix="/api")


@api.get("/status")
async def read_status(gathering: GatheringDep, rights: RightsDep) -> Document:
    return await in_page_thread(overview_document, await gathering.overview(rights))


@api.get("/hops/{route}/{number}")
async def read_hop(
    gathering: GatheringDep, rights: RightsDep, hop: ReadableHop, minutes: Minutes = 60, moved_by: MovedBy = None
) -> Document:
    flow = await gathering.flow(hop, window=timedelta(minutes=minutes), moved_by=moved_by)
    measured = (await gathering.overview(rights)).hop(hop.name)
    return await in_page_thread(flow_document, flow, None if measured is None else forecast(measured, flow))


@api.get("/streams")
async def read_streams_of_user(gathering: GatheringDep, rights: RightsDep) -> Document:
    return await in_page_thread(streams_document, await gathering.streams(rights))


@api.get("/where")
async def read_where(gathering: GatheringDep, rights: RightsDep, wanted: WantedDep) -> Document:
    found = await search(gathering, rights, wanted)
    return {"messages": [traces_document(traces) for traces in found]}


@api.post("/hops/{route}/{number}/run", status_code=status.HTTP_201_CREATED)
async def run_hop(hop: RunnableHop, airflow: AirflowApiDep) -> Document:
    """Starts a run of the hop's transfer DAG. Safe at any time: a hop that is empty ends at once."""
    dag_id = transfer_dag_id(hop)
    run_id = await airflow.start_run(dag_id, f"Run now, from the page of hop {hop.name}")
    return {"said": f"Run {run_id} of hop {hop.name} is started.", "dag_id": dag_id, "run_id": run_id}


@api.post("/hops/{route}/{number}/pause")
async def pause_hop(hop: PausableHop, gathering: GatheringDep, airflow: AirflowApiDep) -> Document:
    """Pauses the hop's DAGs. What runs ends well; messages wait, and none is lost."""
    return await _pause(gathering, airflow, hop, paused=True)


@api.post("/hops/{route}/{number}/unpause")
async def unpause_hop(hop: PausableHop, gathering: GatheringDep, airflow: AirflowApiDep) -> Document:
    return await _pause(gathering, airflow, hop, paused=False)


async def _pause(gathering: Gathering, airflow: AirflowApi, hop: Hop, *, paused: bool) -> Document:
    for dag_id in (transfer_dag_id(hop), confirm_dag_id(hop)):
        await airflow.pause(dag_id, paused=paused)
    gathering.forget_paused()
    return {"said": f"Hop {hop.name} is {'paused' if paused else 'not paused any more'}.", "paused": paused}
