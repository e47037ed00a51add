"""The actions of a user on the page. Each action is a run of a DAG: Airflow authorizes, shows and audits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, status
from pydantic import BaseModel, ConfigDict, Field, field_validator

from relaybox.airflow.forms import SUBSCRIPTION_PATTERN, arrival_stores, asks_for_approval
from relaybox.airflow.naming import redrive_dag_id, replay_dag_id, skip_dag_id
from relaybox.airflow.page.airflow_api import AirflowApi, AirflowApiDep
from relaybox.airflow.page.documents import REFUSALS
from relaybox.airflow.page.named_hops import GatheringDep
from relaybox.airflow.page.permissions import RightsDep
from relaybox.airflow.page.plain_text import NOT_PLAIN, is_plain
from relaybox.airflow.page.threads import in_page_thread
from relaybox.amounts import amount
from relaybox.documents.page import CountedReplayDocument, StartedRunDocument
from relaybox.errors import ConfigurationError
from relaybox.routes import Route, Store
from relaybox.subscriptions import subscriptions

Kind = Literal["replay", "redrive", "skip"]

_DAG_IDS = {"replay": replay_dag_id, "redrive": redrive_dag_id, "skip": skip_dag_id}

actions = APIRouter(prefix="/api/routes/{route}", responses=REFUSALS)


def dag_of(kind: Kind, route: Route) -> str:
    """Returns the id of the DAG that runs the action."""
    return _DAG_IDS[kind](route)


class ActionRequest(BaseModel):
    """Fields of a form; an empty field is None."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        if isinstance(value, str) and not is_plain(value):
            raise ValueError(NOT_PLAIN)
        return None if isinstance(value, str) and not value.strip() else value


Name = Annotated[str, Field(pattern=SUBSCRIPTION_PATTERN)]
Reason = Annotated[str, Field(min_length=3, max_length=500)]


class Range(ActionRequest):
    """The range of a replay to count."""

    store: Annotated[str, Field(max_length=30)]
    subscription: Name
    start: Annotated[str, Field(max_length=60)]
    through: Annotated[str, Field(max_length=60)] | None = None
    cursor: Name | None = None
    rows_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    reason: Annotated[str, Field(max_length=500)] | None = None


class Replay(Range):
    """The range of a replay to run."""

    reason: Reason


class Redrive(ActionRequest):
    store: Annotated[str, Field(max_length=30)]
    subscription: Name
    dead_letter_id: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    reason: Reason


class Skip(ActionRequest):
    sender: Annotated[str, Field(max_length=48)]
    through: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    reason: Reason


@dataclass(frozen=True)
class AllowedAction:
    """For `Depends`: returns the route of the path if the user may start runs of the DAG for this action."""

    kind: Kind

    async def __call__(self, readable: ReadableRoute, rights: RightsDep) -> Route:
        if not await in_page_thread(rights.may_start, dag_of(self.kind, readable)):
            raise HTTPException(status.HTTP_403_FORBIDDEN, f"You may not start runs of this route's {self.kind} DAG.")
        return readable


async def _readable_route(gathering: GatheringDep, rights: RightsDep, route: str) -> Route:
    try:
        found = (await gathering.routes()).route(route)
    except ConfigurationError as error:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such route.") from error
    if not await in_page_thread(lambda: all(rights.may_read(hop) for hop in found.hops)):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not read the DAGs of this route's hops.")
    return found


ReadableRoute = Annotated[Route, Depends(_readable_route)]
"""The route of the path: 404 if there is none, 403 without permission to read all of its hops."""


@actions.post("/replay/count")
async def count_replay(
    route: Annotated[Route, Depends(AllowedAction("replay"))], request: Range, gathering: GatheringDep
) -> CountedReplayDocument:
    """Counts the messages that a replay would read. Changes nothing and starts no run."""
    store = _store(route, request.store)
    counted = await gathering.ask(lambda: _count(route, store, request))
    said = (
        f"Stream positions {counted.first_stream_position:,} to {counted.last_stream_position:,}: "
        f"{amount(counted.message_count, 'message')}, {amount(counted.byte_count, 'byte')}, about {counted.estimated_seconds:,.1f} s."
        if counted.message_count
        else "The range has no messages."
    )
    return CountedReplayDocument(
        said=f"{said} Nothing was changed.",
        first_stream_position=counted.first_stream_position,
        last_stream_position=counted.last_stream_position,
        message_count=counted.message_count,
        byte_count=counted.byte_count,
        estimated_seconds=counted.estimated_seconds,
    )


def _count(route: Route, store: Store, request: Range) -> subscriptions.Replay:
    subscriptions.require_of_stream(store, request.subscription, route.stream)
    return subscriptions.count_replay(
        store,
        request.subscription,
        request.start,
        through=request.through,
        rows_per_second=request.rows_per_second,
    )


@actions.post("/replay", status_code=status.HTTP_201_CREATED)
async def replay(
    route: Annotated[Route, Depends(AllowedAction("replay"))], request: Replay, airflow: AirflowApiDep
) -> StartedRunDocument:
    """Starts a run in which a second cursor reads a range again, after an approval where the store asks for one."""
    return await _start(airflow, "replay", route, request)


@actions.post("/redrive", status_code=status.HTTP_201_CREATED)
async def redrive(
    route: Annotated[Route, Depends(AllowedAction("redrive"))], request: Redrive, airflow: AirflowApiDep
) -> StartedRunDocument:
    """Starts a run that redrives dead letters after an approval."""
    return await _start(airflow, "redrive", route, request)


@actions.post("/skip", status_code=status.HTTP_201_CREATED)
async def skip(
    route: Annotated[Route, Depends(AllowedAction("skip"))], request: Skip, airflow: AirflowApiDep
) -> StartedRunDocument:
    """Starts a run that skips missing messages after an approval."""
    return await _start(airflow, "skip", route, request)


async def _start(airflow: AirflowApi, kind: Kind, route: Route, request: Replay | Redrive | Skip) -> StartedRunDocument:
    if not isinstance(request, Skip):
        _store(route, request.store)
    dag_id = dag_of(kind, route)
    note = f"From the Relaybox page: {request.reason}"
    run_id = await airflow.start_run(dag_id, note, request.model_dump(exclude_none=True))
    waits = (
        "" if kind == "replay" and not asks_for_approval(route) else " It waits for an approval: see Required Actions in Airflow."
    )
    said = f"Started run {run_id} of the {kind} DAG of route {route.name}.{waits}"
    return StartedRunDocument(said=said, dag_id=dag_id, run_id=run_id)


def _store(route: Route, name: str) -> Store:
    if name not in arrival_stores(route):
        raise HTTPException(
            status.HTTP_422_UNPROCESSABLE_CONTENT,
            f"Route {route.name} does not arrive at store {name}. It arrives at: {', '.join(arrival_stores(route))}.",
        )
    return arrival_stores(route)[name]
