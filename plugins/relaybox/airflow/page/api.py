"""The JSON routes: what the pages are made of, and what their buttons do."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, status

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.airflow.page.access import RightsDep
from relaybox.airflow.page.airflow_api import AirflowApi, AirflowApiDep
from relaybox.airflow.page.documents import Document, flow_document, overview_document, streams_document
from relaybox.airflow.page.gathered import GatheringDep, PausableHop, ReadableHop, RunnableHop, forecast
from relaybox.airflow.page.search import WantedDep, search
from relaybox.airflow.page.streams import read_streams
from relaybox.monitoring.documents import traces_document
from relaybox.monitoring.flow import read_flow
from relaybox.routes import Hop

MINUTES = (15, 60, 360, 1440)
"""Windows that the page offers; the API takes any between the shortest and two weeks."""

Minutes = Annotated[int, Query(ge=5, le=60 * 24 * 14)]
MovedBy = Annotated[str | None, Query(max_length=500)]

api = APIRouter(prefix="/api")


@api.get("/status")
def read_status(gathering: GatheringDep, rights: RightsDep) -> Document:
    return overview_document(gathering.overview(rights))


@api.get("/hops/{route}/{number}")
def read_hop(
    gathering: GatheringDep, rights: RightsDep, hop: ReadableHop, minutes: Minutes = 60, moved_by: MovedBy = None
) -> Document:
    flow = read_flow(hop, window=timedelta(minutes=minutes), moved_by=moved_by)
    return flow_document(flow, forecast(gathering.overview(rights).hop(hop.name), flow))


@api.get("/streams")
def read_streams_of_user(gathering: GatheringDep, rights: RightsDep) -> Document:
    return streams_document(read_streams(gathering, rights))


@api.get("/where")
def read_where(gathering: GatheringDep, rights: RightsDep, wanted: WantedDep) -> Document:
    return {"messages": [traces_document(traces) for traces in search(gathering.readable_routes(rights), wanted)]}


@api.post("/hops/{route}/{number}/run", status_code=status.HTTP_201_CREATED)
async def run_hop(hop: RunnableHop, airflow: AirflowApiDep) -> Document:
    """Starts a run of the hop's transfer DAG. Safe at any time: a hop that is empty ends at once."""
    dag_id = transfer_dag_id(hop)
    run_id = await airflow.start_run(dag_id, f"Run now, from the page of hop {hop.name}")
    return {"said": f"Run {run_id} of hop {hop.name} is started.", "dag_id": dag_id, "run_id": run_id}


@api.post("/hops/{route}/{number}/pause")
async def pause_hop(hop: PausableHop, airflow: AirflowApiDep) -> Document:
    """Pauses the hop's DAGs. What runs ends well; messages wait, and none is lost."""
    return await _pause(airflow, hop, paused=True)


@api.post("/hops/{route}/{number}/unpause")
async def unpause_hop(hop: PausableHop, airflow: AirflowApiDep) -> Document:
    return await _pause(airflow, hop, paused=False)


async def _pause(airflow: AirflowApi, hop: Hop, *, paused: bool) -> Document:
    for dag_id in (transfer_dag_id(hop), confirm_dag_id(hop)):
        await airflow.pause(dag_id, paused=paused)
    return {"said": f"Hop {hop.name} is {'paused' if paused else 'not paused any more'}.", "paused": paused}
