"""The JSON routes: what the pages are made of, and what their buttons do."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response, status

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.airflow.page.airflow_api import AirflowApi, AirflowApiDep
from relaybox.airflow.page.documents import REFUSALS, answer, doctor_document, flow_document, overview_document, streams_document
from relaybox.airflow.page.named_hops import GatheringDep, PausableHop, ReadableHop, RunnableHop
from relaybox.airflow.page.permissions import RightsDep
from relaybox.airflow.page.search import WantedDep, search
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.airflow.page.visible import forecast
from relaybox.documents.page import (
    FlowDocument,
    FoundMessagesDocument,
    OverviewDocument,
    PageDoctorDocument,
    PausedDocument,
    StartedRunDocument,
    StreamsDocument,
)
from relaybox.documents.traces import TracesDocument
from relaybox.routes import Hop

MINUTES = (15, 60, 360, 1440)
"""Windows that the page offers; the API takes any between the shortest and two weeks."""

Minutes = Annotated[int, Query(ge=5, le=60 * 24 * 14)]
MovedBy = Annotated[str | None, Query(max_length=500)]

api = APIRouter(prefix="/api", responses=REFUSALS)


@api.get("/status", response_model=OverviewDocument)
async def read_status(gathering: GatheringDep, rights: RightsDep) -> Response:
    """Every hop that you may read, and what is stuck."""
    return await answer(overview_document, await gathering.overview(rights))


@api.get("/hops/{route}/{number}", response_model=FlowDocument)
async def read_hop(
    gathering: GatheringDep, rights: RightsDep, hop: ReadableHop, minutes: Minutes = 60, moved_by: MovedBy = None
) -> Response:
    """A hop over time: its rates, its newest batches, and when its backlog will be gone."""
    flow = await gathering.flow(hop, window=timedelta(minutes=minutes), moved_by=moved_by)
    measured = (await gathering.overview(rights)).hop(hop.name)
    return await answer(flow_document, flow, None if measured is None else forecast(measured, flow))


@api.get("/streams", response_model=StreamsDocument)
async def read_streams_of_user(gathering: GatheringDep, rights: RightsDep) -> Response:
    """What streams hold back, who reads them, and what was set aside."""
    return await answer(streams_document, await gathering.streams(rights))


@api.get("/doctor", response_model=PageDoctorDocument)
async def read_doctor(gathering: GatheringDep, rights: RightsDep) -> Response:
    """What doctor finds in each store of your hops that is not ok, as the page's login sees it. At most a minute old."""
    return await answer(doctor_document, await gathering.reports(rights))


@api.get("/where", response_model=FoundMessagesDocument)
async def read_where(gathering: GatheringDep, rights: RightsDep, wanted: WantedDep) -> Response:
    """Where a message is: by its id, or by its sender and index."""
    found = await search(gathering, rights, wanted)
    return await answer(lambda: FoundMessagesDocument(messages=[TracesDocument.of(traces, {}) for traces in found]))


@api.post("/hops/{route}/{number}/run", status_code=status.HTTP_201_CREATED)
async def run_hop(hop: RunnableHop, airflow: AirflowApiDep) -> StartedRunDocument:
    """Starts a run of the hop's transfer DAG. Safe at any time: a hop that is empty ends at once."""
    dag_id = transfer_dag_id(hop)
    run_id = await airflow.start_run(dag_id, f"Run now, from the page of hop {hop.name}")
    return StartedRunDocument(said=f"Run {run_id} of hop {hop.name} is started.", dag_id=dag_id, run_id=run_id)


@api.post("/hops/{route}/{number}/pause")
async def pause_hop(hop: PausableHop, gathering: GatheringDep, airflow: AirflowApiDep) -> PausedDocument:
    """Pauses the hop's DAGs. What runs ends well; messages wait, and none is lost."""
    return await _pause(gathering, airflow, hop, paused=True)


@api.post("/hops/{route}/{number}/unpause")
async def unpause_hop(hop: PausableHop, gathering: GatheringDep, airflow: AirflowApiDep) -> PausedDocument:
    """Lets the hop's DAGs run again."""
    return await _pause(gathering, airflow, hop, paused=False)


async def _pause(gathering: StoreOverview, airflow: AirflowApi, hop: Hop, *, paused: bool) -> PausedDocument:
    for dag_id in (transfer_dag_id(hop), confirm_dag_id(hop)):
        await airflow.pause(dag_id, paused=paused)
    gathering.forget_paused()
    return PausedDocument(said=f"Hop {hop.name} is {'paused' if paused else 'not paused any more'}.", paused=paused)
