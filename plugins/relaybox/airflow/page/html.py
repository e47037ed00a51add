"""The HTML routes: the map, a hop, what is stuck, where a message is, runbooks."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from importlib import resources
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from relaybox.airflow.dags.order_params import arrival_stores
from relaybox.airflow.links import PREFIX
from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.airflow.page import words
from relaybox.airflow.page.access import RightsDep
from relaybox.airflow.page.addresses import run_address
from relaybox.airflow.page.airflow_api import PausedDags
from relaybox.airflow.page.api import MINUTES, Minutes, MovedBy
from relaybox.airflow.page.charts import draw_delays, draw_rates
from relaybox.airflow.page.gathered import GatheringDep, ReadableHop, forecast
from relaybox.airflow.page.map_drawing import DrawnHop, draw_map
from relaybox.airflow.page.markdown import render_runbook
from relaybox.airflow.page.orders import Kind, ReadableRoute, dag_of
from relaybox.airflow.page.search import WantedDep, search
from relaybox.airflow.page.streams import read_streams
from relaybox.airflow.page.timeline import draw_timeline
from relaybox.monitoring.findings import plain_words
from relaybox.monitoring.flow import read_flow
from relaybox.monitoring.runbooks import read_runbooks
from relaybox.monitoring.spark_pages import application_address
from relaybox.monitoring.way import moments

pages = APIRouter(default_response_class=HTMLResponse)

Filled = Annotated[str, Query(max_length=100)]

_MEDIA_TYPES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}


@pages.get("/map")
def show_map(request: Request, gathering: GatheringDep, rights: RightsDep) -> Response:
    seen = gathering.overview(rights)
    base = _base(request)
    drawn = [
        DrawnHop(hop, seen.health(hop), seen.overview.rates.get(hop.hop.name), f"{base}/hops/{hop.hop.name}") for hop in seen.hops
    ]
    routes = [route for route in seen.overview.status.routes if all(rights.may_read(hop) for hop in route.route.hops)]
    drawing = draw_map(drawn, frozenset(seen.overview.status.errors))
    return _page(request, "map.html", seen=seen, drawing=drawing, drawn=drawn, routes=routes)


@pages.get("/hops/{route}/{number}")
def show_hop(
    *,
    request: Request,
    gathering: GatheringDep,
    rights: RightsDep,
    paused: PausedDags,
    hop: ReadableHop,
    minutes: Minutes = 60,
    moved_by: MovedBy = None,
) -> Response:
    flow = read_flow(hop, window=timedelta(minutes=minutes), moved_by=moved_by)
    seen = gathering.overview(rights)
    measured = seen.hop(hop.name)
    return _page(
        request,
        "hop.html",
        hop=hop,
        status=measured,
        health=seen.health(measured),
        rate=seen.overview.rates.get(hop.name),
        flow=flow,
        forecast=forecast(measured, flow),
        rates_chart=draw_rates(flow),
        delays_chart=draw_delays(flow, lag_seconds=measured.lag_seconds),
        timeline=draw_timeline(flow.batches, airflow=_airflow_root(request)),
        findings=[finding for finding in seen.findings if hop.name in (finding.hop, *finding.affected)],
        paused=paused.get(transfer_dag_id(hop)),
        may_run=rights.may_run(hop),
        may_pause=rights.may_pause(hop),
        dags={"transfer": transfer_dag_id(hop), "confirm": confirm_dag_id(hop)},
        minutes=minutes,
        all_minutes=MINUTES,
        moved_by=moved_by,
    )


@pages.get("/stuck")
def show_stuck(request: Request, gathering: GatheringDep, rights: RightsDep, paused: PausedDags) -> Response:
    seen = gathering.overview(rights)
    draining = [(hop, forecast(hop, read_flow(hop.hop, window=timedelta(hours=1)))) for hop in seen.hops if hop.lag_messages]
    return _page(
        request,
        "stuck.html",
        findings=(*seen.findings, *read_streams(gathering, rights).findings),
        paused=[hop for hop in seen.hops if paused.get(transfer_dag_id(hop.hop)) or paused.get(confirm_dag_id(hop.hop))],
        draining=draining,
        may_run={hop.hop.name: rights.may_run(hop.hop) for hop in seen.hops},
        may_pause={hop.hop.name: rights.may_pause(hop.hop) for hop in seen.hops},
    )


@pages.get("/streams")
def show_streams(request: Request, gathering: GatheringDep, rights: RightsDep) -> Response:
    detached = [finding for finding in gathering.overview(rights).findings if finding.kind == "messages_detached"]
    return _page(request, "streams.html", seen=read_streams(gathering, rights), detached=detached)


@pages.get("/order/{kind}/{route}")
def show_order(
    *,
    request: Request,
    rights: RightsDep,
    route: ReadableRoute,
    kind: Kind,
    store: Filled = "",
    subscription: Filled = "",
    letter: Filled = "",
    sender: Filled = "",
    through: Filled = "",
) -> Response:
    """The form of a replay, a redrive or a skip, filled in as the link says."""
    stores = list(arrival_stores(route))
    return _page(
        request,
        "order.html",
        kind=kind,
        route=route,
        stores=stores,
        dag_id=dag_of(kind, route),
        allowed=rights.may_start(dag_of(kind, route)),
        filled={
            "store": store or stores[-1],
            "subscription": subscription,
            "letter": letter,
            "sender": sender,
            "through": through,
        },
    )


@pages.get("/where")
def show_where(request: Request, gathering: GatheringDep, rights: RightsDep, wanted: WantedDep) -> Response:
    found = search(gathering.readable_routes(rights), wanted) if wanted.asked else []
    traces = [(trace, moments(trace)) for each in found for trace in each]
    return _page(request, "where.html", wanted=wanted, traces=traces)


@pages.get("/runbooks")
def show_runbooks(request: Request) -> Response:
    return _page(request, "runbooks.html", runbooks=read_runbooks().values())


@pages.get("/runbooks/{name}")
def show_runbook(request: Request, name: str) -> Response:
    runbook = read_runbooks().get(name)
    if runbook is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such runbook.")
    return _page(request, "runbook.html", runbook=runbook, body=render_runbook(runbook.text))


@pages.get("/of-dag")
def show_hop_of_dag(request: Request, gathering: GatheringDep, dag: Annotated[str, Query(max_length=250)]) -> Response:
    """The tab that every DAG has in Airflow: a DAG of Relaybox leads to its hop."""
    for hop in gathering.routes().hops:
        if dag in (transfer_dag_id(hop), confirm_dag_id(hop)):
            return RedirectResponse(f"{_base(request)}/hops/{hop.name}", status.HTTP_303_SEE_OTHER)
    return _page(request, "message.html", said="This DAG moves no messages of Relaybox.")


@pages.get("/static/{name}")
def show_static(name: str) -> Response:
    if name not in _MEDIA_TYPES:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such file.")
    return Response(_static(name), media_type=_MEDIA_TYPES[name])


def error_page(request: Request, said: str, code: int) -> Response:
    """A page that says what is wrong."""
    return _page(request, "message.html", code, said=said)


def _page(request: Request, template: str, code: int = status.HTTP_200_OK, **shown: Any) -> Response:
    content = (
        _templates().get_template(template).render(base=_base(request), airflow=_airflow_root(request), here=template, **shown)
    )
    return HTMLResponse(content, code)


def _base(request: Request) -> str:
    """The path at which the page is mounted; behind a proxy it may have more before it."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def _airflow_root(request: Request) -> str:
    return _base(request).removesuffix(PREFIX)


@cache
def _templates() -> Environment:
    """Everything that is shown is escaped, whatever it is; a name that a view forgot is an error."""
    environment = Environment(
        loader=PackageLoader("relaybox.airflow.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["words"] = words
    environment.globals["plain_words"] = plain_words
    environment.globals["run_address"] = run_address
    environment.globals["application_address"] = application_address
    return environment


@cache
def _static(name: str) -> bytes:
    return (resources.files("relaybox.airflow.page") / "static" / name).read_bytes()
