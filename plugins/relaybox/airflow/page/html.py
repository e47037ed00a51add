"""The HTML routes: map, hop, stuck hops, streams, derivations and exports, doctor, actions, message search, runbooks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from importlib import resources
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from relaybox.airflow.forms import arrival_stores
from relaybox.airflow.links import PREFIX
from relaybox.airflow.naming import confirm_dag_id, derive_dag_id, export_dag_id, promote_dag_id, transfer_dag_id
from relaybox.airflow.page import formatting
from relaybox.airflow.page.actions import Kind, ReadableRoute, dag_of
from relaybox.airflow.page.api import MINUTES, Minutes, MovedBy
from relaybox.airflow.page.charts import draw_delays, draw_rates
from relaybox.airflow.page.derivations import TAGS
from relaybox.airflow.page.hop_table import HopOrder, HopOrderDep, group_by_route
from relaybox.airflow.page.map_drawing import DrawnHop, draw_map
from relaybox.airflow.page.map_filter import HEALTH, MapFilter, MapFilterDep
from relaybox.airflow.page.map_matrix import MOST_DRAWN_HOPS, draw_matrix, is_too_large_to_draw
from relaybox.airflow.page.markdown import render_runbook
from relaybox.airflow.page.named_hops import GatheringDep, ReadableHop
from relaybox.airflow.page.permissions import RightsDep
from relaybox.airflow.page.search import WantedDep, search
from relaybox.airflow.page.threads import busy, in_page_thread
from relaybox.airflow.page.timeline import draw_timeline
from relaybox.airflow.page.urls import run_address
from relaybox.airflow.page.visible import VisibleOverview, explained_by_pause, forecast
from relaybox.monitoring.message_timeline import moments
from relaybox.monitoring.runbooks import read_runbooks
from relaybox.monitoring.spark_pages import application_address
from relaybox.monitoring.store_findings import plain_words

pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

SHOWN_BACKLOGS = 20
"""Number of backlogs, oldest first; each forecast asks two stores."""

Filled = Annotated[str, Query(max_length=100)]

_MEDIA_TYPES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}


@pages.get("/map")
async def show_map(
    request: Request, gathering: GatheringDep, rights: RightsDep, wanted: MapFilterDep, order: HopOrderDep
) -> Response:
    return await in_page_thread(_draw_map_page, request, await gathering.overview(rights), wanted, order)


def _draw_map_page(request: Request, seen: VisibleOverview, wanted: MapFilter, order: HopOrder) -> Response:
    base = base_of(request)
    every = [
        DrawnHop(hop, seen.health(hop), seen.overview.rates.get(hop.hop.name), f"{base}/hops/{hop.hop.name}") for hop in seen.hops
    ]
    drawn = [hop for hop in every if wanted.takes(hop)]
    readable, shown = {hop.status.hop.name for hop in every}, {hop.status.hop.name for hop in drawn}
    routes = [
        route
        for route in seen.overview.status.routes
        if (names := {hop.name for hop in route.route.hops}) <= readable and not names.isdisjoint(shown)
    ]
    silent, is_matrix = frozenset(seen.overview.status.errors), is_too_large_to_draw(drawn)
    drawing = (
        draw_matrix(drawn, silent, partial(_between, base, wanted, order))
        if is_matrix
        else draw_map(drawn, silent, partial(_report_of, base))
    )
    in_order = order.sorted(drawn)
    return show_page(
        request,
        "map.html",
        seen=seen,
        drawing=drawing,
        drawn=in_order,
        groups=group_by_route(in_order, routes) if order.group else (),
        routes=() if order.group else routes,
        filter=wanted,
        order=order,
        is_matrix=is_matrix,
        is_large=len(every) > MOST_DRAWN_HOPS,
        missing=list(wanted.missing(every)),
        names={
            "route": list(dict.fromkeys(hop.status.hop.route for hop in every)),
            "store": sorted({store for hop in every for store in hop.ends}),
        },
        healths=HEALTH,
        hop_count=len(every),
        link=partial(_map_with, base, wanted, order),
        all_hops=_map_with(base, MapFilter(), order),
        as_in_file=replace(order, sort="", order=""),
    )


def _map_with(base: str, wanted: MapFilter, order: HopOrder, changed: HopOrder | None = None, **fields: str) -> str:
    """The address of the map with another order, or with other fields of the filter."""
    parameters = {**replace(wanted, **fields).parameters, **(changed or order).parameters}
    return f"{base}/map?{urlencode(parameters)}" if parameters else f"{base}/map"


def _between(base: str, wanted: MapFilter, order: HopOrder, source: str, destination: str) -> str:
    return _map_with(base, wanted, order, source=source, destination=destination)


def _report_of(base: str, store: str) -> str:
    return f"{base}/doctor#{quote(store, safe='')}"


@pages.get("/hops/{route}/{number}")
async def show_hop(
    *,
    request: Request,
    gathering: GatheringDep,
    rights: RightsDep,
    hop: ReadableHop,
    minutes: Minutes = 60,
    moved_by: MovedBy = None,
) -> Response:
    flow = await gathering.flow(hop, window=timedelta(minutes=minutes), moved_by=moved_by)
    seen, paused = await gathering.overview(rights), await gathering.paused_dags()
    measured = seen.hop(hop.name)
    if measured is None:
        raise busy()
    return await in_page_thread(
        lambda: show_page(
            request,
            "hop.html",
            seen=seen,
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
    )


@pages.get("/stuck")
async def show_stuck(request: Request, gathering: GatheringDep, rights: RightsDep) -> Response:
    seen, paused = await gathering.overview(rights), await gathering.paused_dags()
    streams = await gathering.streams(rights)
    stopped = {hop.hop.name for hop in seen.hops if paused.get(transfer_dag_id(hop.hop)) or paused.get(confirm_dag_id(hop.hop))}
    late = sorted((hop for hop in seen.hops if hop.lag_messages), key=lambda hop: -(hop.lag_seconds or 0.0))
    flows = await gathering.flows([hop.hop for hop in late[:SHOWN_BACKLOGS]], window=timedelta(hours=1))
    return await in_page_thread(
        lambda: show_page(
            request,
            "stuck.html",
            seen=seen,
            findings=(*(one for one in seen.findings if not explained_by_pause(one, stopped)), *streams.findings),
            paused=[hop for hop in seen.hops if hop.hop.name in stopped],
            draining=[(hop, None if flow is None else forecast(hop, flow)) for hop, flow in zip(late, flows, strict=False)],
            more=len(late) - len(flows),
            may_run={hop.hop.name: rights.may_run(hop.hop) for hop in seen.hops},
            may_pause={hop.hop.name: rights.may_pause(hop.hop) for hop in seen.hops},
        )
    )


@pages.get("/streams")
async def show_streams(request: Request, gathering: GatheringDep, rights: RightsDep) -> Response:
    detached = [finding for finding in (await gathering.overview(rights)).findings if finding.kind == "messages_detached"]
    streams = await gathering.streams(rights)
    return await in_page_thread(lambda: show_page(request, "streams.html", seen=streams, detached=detached))


@pages.get("/derivations")
async def show_derivations(request: Request, gathering: GatheringDep, rights: RightsDep) -> Response:
    seen = await gathering.derivations(rights)
    return await in_page_thread(lambda: show_page(request, "derivations.html", seen=seen, tags=TAGS))


@pages.get("/doctor")
async def show_doctor(request: Request, gathering: GatheringDep, rights: RightsDep) -> Response:
    reports = await gathering.reports(rights)
    return await in_page_thread(lambda: show_page(request, "doctor.html", seen=reports, tags=_TAGS))


_TAGS = {"error": "stuck", "warning": "held", "notice": "note", "ok": "ok"}
"""The colour of each severity of doctor."""


@pages.get("/action/{kind}/{route}")
async def show_action(
    *,
    request: Request,
    rights: RightsDep,
    route: ReadableRoute,
    kind: Kind,
    store: Filled = "",
    subscription: Filled = "",
    dead_letter_id: Filled = "",
    sender: Filled = "",
    through: Filled = "",
) -> Response:
    """Shows the form of a replay, a redrive or a skip, with the values of the link filled in."""
    stores = list(arrival_stores(route))
    return show_page(
        request,
        "action.html",
        kind=kind,
        route=route,
        stores=stores,
        dag_id=dag_of(kind, route),
        allowed=await in_page_thread(rights.may_start, dag_of(kind, route)),
        filled={
            "store": store or stores[-1],
            "subscription": subscription,
            "dead_letter_id": dead_letter_id,
            "sender": sender,
            "through": through,
        },
    )


@pages.get("/where")
async def show_where(request: Request, gathering: GatheringDep, rights: RightsDep, wanted: WantedDep) -> Response:
    found = await search(gathering, rights, wanted) if wanted.asked else []
    traces = [(trace, moments(trace)) for each in found for trace in each]
    return await in_page_thread(lambda: show_page(request, "where.html", wanted=wanted, traces=traces))


@pages.get("/runbooks")
async def show_runbooks(request: Request) -> Response:
    return await in_page_thread(lambda: show_page(request, "runbooks.html", runbooks=read_runbooks().values()))


@pages.get("/runbooks/{name}")
async def show_runbook(request: Request, name: str) -> Response:
    runbook = (await in_page_thread(read_runbooks)).get(name)
    if runbook is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such runbook.")
    return await in_page_thread(lambda: show_page(request, "runbook.html", runbook=runbook, body=render_runbook(runbook.text)))


@pages.get("/of-dag")
async def show_hop_of_dag(
    request: Request, gathering: GatheringDep, rights: RightsDep, dag: Annotated[str, Query(max_length=250)]
) -> Response:
    """The tab of a DAG in Airflow: redirects from a DAG of Relaybox to its hop, or to the derivations and exports."""
    routes = await gathering.routes()
    derived = [route for route in routes.routes.values() if route.derivation is not None]
    rows = {dag_id(route): f"derivation-{route.name}" for route in derived for dag_id in (derive_dag_id, promote_dag_id)}
    rows |= {export_dag_id(export): f"export-{export.name}" for export in routes.exports.values()}
    if dag in rows and await in_page_thread(rights.may_read_dag, dag):
        return RedirectResponse(f"{base_of(request)}/derivations#{quote(rows[dag], safe='')}", status.HTTP_303_SEE_OTHER)
    for hop in routes.hops:
        if dag in (transfer_dag_id(hop), confirm_dag_id(hop)) and await in_page_thread(rights.may_read, hop):
            return RedirectResponse(f"{base_of(request)}/hops/{hop.name}", status.HTTP_303_SEE_OTHER)
    return show_page(request, "message.html", said="This DAG belongs to no hop, derivation or export of Relaybox.")


@pages.get("/static/{name}")
async def show_static(name: str) -> Response:
    if name not in _MEDIA_TYPES:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such file.")
    return Response(_static(name), media_type=_MEDIA_TYPES[name])


def error_page(request: Request, said: str, code: int) -> Response:
    """Shows an error."""
    return show_page(request, "message.html", code, said=said)


def show_page(request: Request, template: str, code: int = status.HTTP_200_OK, **shown: Any) -> Response:
    """Renders a template."""
    content = (
        _templates()
        .get_template(template)
        .render(base=base_of(request), airflow=_airflow_root(request), template=template, **shown)
    )
    return HTMLResponse(content, code)


def base_of(request: Request) -> str:
    """Returns the path at which the page is mounted; a proxy may have added a prefix."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def _airflow_root(request: Request) -> str:
    return base_of(request).removesuffix(PREFIX)


@cache
def _templates() -> Environment:
    """All values are escaped; an undefined name is an error."""
    environment = Environment(
        loader=PackageLoader("relaybox.airflow.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["formatting"] = formatting
    environment.globals["plain_words"] = plain_words
    environment.globals["run_address"] = run_address
    environment.globals["application_address"] = application_address
    return environment


@cache
def _static(name: str) -> bytes:
    return (resources.files("relaybox.airflow.page") / "static" / name).read_bytes()
