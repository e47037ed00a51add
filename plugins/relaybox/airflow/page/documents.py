"""The answers of the JSON API, made from what a user may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ParamSpec

from fastapi import Response

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.airflow.page.threads import in_page_thread
from relaybox.documents.document import json_text
from relaybox.documents.page import (
    BatchTimesDocument,
    BlockerDocument,
    FindingDocument,
    FlowDocument,
    ForecastDocument,
    IntervalDocument,
    OverviewDocument,
    PageDoctorDocument,
    PageHopDocument,
    PageReportDocument,
    RefusalDocument,
    StreamsDocument,
)
from relaybox.documents.status import HopDocument
from relaybox.monitoring.spark_pages import application_address
from relaybox.monitoring.store_findings import plain_words

if TYPE_CHECKING:
    from relaybox.airflow.page.store_reports import VisibleReports
    from relaybox.airflow.page.streams import VisibleStreams
    from relaybox.airflow.page.visible import VisibleOverview
    from relaybox.documents.document import Document
    from relaybox.monitoring.finding import Finding
    from relaybox.monitoring.forecasts import Forecast
    from relaybox.monitoring.hop_history import BatchTimes, HopFlow
    from relaybox.monitoring.status import HopStatus

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": RefusalDocument, "description": why}
    for code, why in {
        401: "You are not logged in.",
        403: "You have not the right to it.",
        404: "There is no such hop, route or message.",
        422: "A part of the request is wrong; the answer says which.",
        503: "A store, or Airflow's database, does not answer now; a retry may help.",
    }.items()
}
"""What every route may answer instead."""

_Parameters = ParamSpec("_Parameters")


async def answer(make: Callable[_Parameters, Document], *arguments: _Parameters.args, **named: _Parameters.kwargs) -> Response:
    """A document, made and written in a thread of the page: a large one does not hold up Airflow's event loop."""
    return await in_page_thread(_written, lambda: make(*arguments, **named))


def _written(make: Callable[[], Document]) -> Response:
    return Response(json_text(make()), media_type="application/json")


def overview_document(seen: VisibleOverview) -> OverviewDocument:
    """As `relaybox status --json`, for the hops that the user may read, with health, rate and what is stuck."""
    return OverviewDocument(
        measured_at=seen.overview.status.measured_at,
        age_seconds=seen.age_seconds,
        hops=[_hop(seen, hop) for hop in seen.hops],
        stuck=[_finding(finding) for finding in seen.findings],
    )


def _hop(seen: VisibleOverview, hop: HopStatus) -> PageHopDocument:
    members = {
        **dict(HopDocument.of(hop)),
        "errors": [plain_words(error) for error in hop.errors],
        "health": seen.health(hop),
        "messages_per_second": seen.overview.rates.get(hop.hop.name),
        "transfer_dag": transfer_dag_id(hop.hop),
        "confirm_dag": confirm_dag_id(hop.hop),
    }
    return PageHopDocument.model_validate(members)


def _finding(finding: Finding) -> FindingDocument:
    return FindingDocument(
        kind=finding.kind,
        severity=finding.severity,
        hop=finding.hop,
        store=finding.store,
        since=finding.since,
        what=finding.what,
        message_count=finding.message_count,
        affected=list(finding.affected),
        blocked_by=[BlockerDocument.model_validate(blocker) for blocker in finding.blockers],
        run_helps=finding.run_helps,
        next_step=finding.next_step,
        runbook=finding.runbook,
    )


def flow_document(flow: HopFlow, forecast: Forecast | None) -> FlowDocument:
    return FlowDocument(
        hop=flow.hop.name,
        measured_at=flow.measured_at,
        interval_seconds=flow.interval_seconds,
        intervals=[IntervalDocument.model_validate(interval) for interval in flow.intervals],
        batches=[_batch(batch) for batch in flow.batches],
        forecast=None if forecast is None else _forecast(forecast, flow.hop.limits.target_lag_seconds),
        errors=[plain_words(error) for error in flow.errors],
    )


def _forecast(forecast: Forecast, target_seconds: float) -> ForecastDocument:
    return ForecastDocument(
        backlog=forecast.backlog,
        arriving_per_second=forecast.arriving_per_second,
        moving_per_second=forecast.moving_per_second,
        seconds_to_empty=forecast.seconds_to_empty,
        target_seconds=target_seconds,
        misses_target=forecast.misses(target_seconds),
    )


def _batch(batch: BatchTimes) -> BatchTimesDocument:
    address = application_address(batch.application)
    return BatchTimesDocument.model_validate({**asdict(batch), "application_address": address})


def streams_document(seen: VisibleStreams) -> StreamsDocument:
    return StreamsDocument.model_validate(
        {
            "held": [
                {"stream": here.stream, "store": here.store, **asdict(sender)}
                for here in seen.holdbacks
                for sender in here.senders
            ],
            "subscriptions": seen.subscriptions,
            "dead_letters": seen.dead_letters,
            "reader_problems": seen.reader_problems,
            "silent": [one.store for one in seen.unread if one.is_silent],
            "unread": {one.store: f"{one.what}. {one.next_step}" for one in seen.unread},
        }
    )


def doctor_document(seen: VisibleReports) -> PageDoctorDocument:
    return PageDoctorDocument(
        severity=seen.severity,
        stores=[PageReportDocument.model_validate(report) for report in seen.reports],
        waiting=list(seen.waiting),
    )
