"""What the JSON API answers. Errors are in plain words: no host, path or statement."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id
from relaybox.monitoring.documents import status_document
from relaybox.monitoring.findings import plain_words
from relaybox.monitoring.spark_pages import application_address

if TYPE_CHECKING:
    from relaybox.airflow.page.streams import SeenStreams
    from relaybox.airflow.page.visible import Seen
    from relaybox.monitoring.blockers import Blocker
    from relaybox.monitoring.findings import Finding
    from relaybox.monitoring.flow import BatchTimes, HopFlow
    from relaybox.monitoring.forecasts import Forecast

Document = dict[str, Any]


def overview_document(seen: Seen) -> Document:
    """As `relaybox status --json`, for the hops that the user may read, with health, rate and what is stuck."""
    whole = status_document(seen.overview.status)
    visible = {hop.hop.name: hop for hop in seen.hops}
    return {
        "measured_at": whole["measured_at"],
        "age_seconds": seen.age_seconds,
        "hops": [
            {
                **hop,
                "errors": [plain_words(error) for error in visible[hop["hop"]].errors],
                "health": seen.health(visible[hop["hop"]]),
                "messages_per_second": seen.overview.rates.get(hop["hop"]),
                "transfer_dag": transfer_dag_id(visible[hop["hop"]].hop),
                "confirm_dag": confirm_dag_id(visible[hop["hop"]].hop),
            }
            for hop in whole["hops"]
            if hop["hop"] in visible
        ],
        "stuck": [finding_document(finding) for finding in seen.findings],
    }


def finding_document(finding: Finding) -> Document:
    return {
        "kind": finding.kind,
        "severity": str(finding.severity),
        "hop": finding.hop,
        "store": finding.store,
        "since": _time(finding.since),
        "what": finding.what,
        "message_count": finding.message_count,
        "affected": list(finding.affected),
        "blocked_by": [_blocker(blocker) for blocker in finding.blockers],
        "run_helps": finding.run_helps,
        "next_step": finding.next_step,
        "runbook": finding.runbook,
    }


def _blocker(blocker: Blocker) -> Document:
    return {
        "pid": blocker.pid,
        "who": blocker.who,
        "state": blocker.state,
        "began_at": _time(blocker.began_at),
        "age_seconds": blocker.age_seconds,
        "query": blocker.query,
    }


def flow_document(flow: HopFlow, forecast: Forecast | None) -> Document:
    return {
        "hop": flow.hop.name,
        "measured_at": _time(flow.measured_at),
        "interval_seconds": flow.interval_seconds,
        "intervals": [
            {
                "starts_at": _time(interval.starts_at),
                "planned_rows": interval.planned_rows,
                "published_rows": interval.published_rows,
                "worst_delay_seconds": interval.worst_delay_seconds,
            }
            for interval in flow.intervals
        ],
        "batches": [_batch(batch) for batch in flow.batches],
        "forecast": forecast
        and {
            "backlog": forecast.backlog,
            "arriving_per_second": forecast.arriving_per_second,
            "moving_per_second": forecast.moving_per_second,
            "seconds_to_empty": forecast.seconds_to_empty,
            "target_seconds": flow.hop.limits.target_lag_seconds,
            "misses_target": forecast.misses(flow.hop.limits.target_lag_seconds),
        },
        "errors": [plain_words(error) for error in flow.errors],
    }


def _batch(batch: BatchTimes) -> Document:
    return {
        "batch": batch.batch,
        "row_count": batch.row_count,
        "slice_count": batch.slice_count,
        "planned_at": _time(batch.planned_at),
        "copied_at": [_time(moment) for moment in batch.copied_at],
        "published_at": _time(batch.published_at),
        "received_at": _time(batch.received_at),
        "processed_at": _time(batch.processed_at),
        "settled_at": _time(batch.settled_at),
        "moved_by": batch.moved_by,
        "application": batch.application,
        "application_address": application_address(batch.application),
    }


def streams_document(seen: SeenStreams) -> Document:
    return {
        "held": [
            {"stream": here.stream, "store": here.store, **asdict(sender)} for here in seen.holdbacks for sender in here.senders
        ],
        "subscriptions": [asdict(one) for one in seen.subscriptions],
        "dead_letters": [asdict(letter) for letter in seen.letters],
        "silent": list(seen.silent),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
