"""How the hops are, for a monitoring system: OpenMetrics text from what the stores say. Reads only.

docs/alerts.yml and docs/grafana-dashboard.json are made of these names; a test holds the three together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client import metrics_core
from prometheus_client.openmetrics import exposition

from relaybox import errors
from relaybox.stores.opening import store_session
from relaybox.verification.reliability import is_no_reading

if TYPE_CHECKING:
    from fractions import Fraction

    from relaybox.monitoring.status import HopStatus, Status
    from relaybox.routes import Routes, Store
    from relaybox.verification.reliability import Delivery

CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST
STATEMENT_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Metric:
    """A name, whether it only ever grows, and what it tells."""

    name: str
    kind: str  # gauge | counter
    help: str


METRICS = {
    metric.name: metric
    for metric in (
        Metric("relaybox_store_up", "gauge", "1 if the store answered without an error, else 0."),
        Metric("relaybox_store_bytes", "gauge", "Size on disk of a part of the store: outbox, logs, ledgers, rest."),
        Metric(
            "relaybox_store_oldest_transaction_seconds",
            "gauge",
            "Age of the oldest open transaction that wrote, also a prepared one: its messages wait.",
        ),
        Metric("relaybox_hop_sent_messages_total", "counter", "Committed messages of the hop; its rate is the rate of sending."),
        Metric(
            "relaybox_hop_received_messages_total",
            "counter",
            "Messages published at the destination; its rate is the rate of moving.",
        ),
        Metric("relaybox_hop_settled_messages_total", "counter", "Messages for which the route's policy holds."),
        Metric("relaybox_hop_lag_messages", "gauge", "Messages that are sent and not received."),
        Metric("relaybox_hop_lag_seconds", "gauge", "Age of the oldest message that is not received, else 0."),
        Metric("relaybox_hop_target_lag_seconds", "gauge", "limits.target_lag_seconds of the route."),
        Metric("relaybox_hop_unsettled_messages", "gauge", "Messages that are received and not settled."),
        Metric("relaybox_hop_oldest_unsettled_seconds", "gauge", "Age of the oldest message that is not settled, else 0."),
        Metric("relaybox_hop_blocked_seconds", "gauge", "How long the hop has moved nothing although messages wait, else 0."),
        Metric("relaybox_hop_progress_timestamp_seconds", "gauge", "When a batch of the hop was last planned or received."),
        Metric("relaybox_hop_driven", "gauge", "1 while a transfer of the hop runs."),
        Metric("relaybox_hop_reliability", "gauge", "R: unique received / sent, of the due messages. Never rounded up to 1."),
        Metric(
            "relaybox_hop_uniqueness", "gauge", "UR: unique received / all received, of the due messages. Never rounded up to 1."
        ),
        Metric("relaybox_hop_error", "gauge", "1 for each error of the hop: of one of its stores, its topics or its ledgers."),
        Metric("relaybox_route_reliability", "gauge", "R from end to end: the product of the hops."),
        Metric("relaybox_route_uniqueness", "gauge", "UR from end to end: the product of the hops."),
        Metric(
            "relaybox_watermark_age_seconds",
            "gauge",
            "How long a watermark has not moved although messages wait beyond it, else 0.",
        ),
        Metric("relaybox_stream_delivered_messages_total", "counter", "Messages that the stream delivered."),
        Metric("relaybox_stream_duplicates_total", "counter", "Copies of messages that were dropped."),
        Metric("relaybox_stream_held_messages", "gauge", "Messages that are received and wait for an earlier one: the holdback."),
        Metric(
            "relaybox_stream_stalled_senders",
            "gauge",
            "Stalled senders: a limit is reached. Their messages wait; other senders go on.",
        ),
        Metric(
            "relaybox_nonconforming_messages",
            "gauge",
            "Kept messages that did not conform to their schema when they arrived, of topics with schema_checks.first_hop.",
        ),
        Metric(
            "relaybox_dead_letters",
            "gauge",
            "Dead letters that are open (wait for a decision) or redriving (wait for their consumer).",
        ),
        Metric(
            "relaybox_endpoint_failing_seconds",
            "gauge",
            "How long the endpoint of a webhook or of Kafka has taken no message although attempts are made. Absent while it takes them.",
        ),
        Metric("relaybox_subscription_behind_messages", "gauge", "Stream positions that the subscription has not acknowledged."),
        Metric(
            "relaybox_retention_held_seconds",
            "gauge",
            "How long a hop or subscription has kept a whole segment, else 0. Absent with stopped_consumer: keep.",
        ),
        Metric("relaybox_detached_messages", "gauge", "Messages of a log that are in files only, because a consumer stopped."),
        Metric("relaybox_retention_segments", "gauge", "Segments of an outbox or a log."),
        Metric("relaybox_retention_first_kept", "gauge", "The first kept seq of an outbox, or log position of a log."),
        Metric(
            "relaybox_reader_problem",
            "gauge",
            "1 for each reader that gets nothing, or less than relaybox.yaml and its subscription say. Absent where none does.",
        ),
        Metric("relaybox_unrouted_messages", "gauge", "Messages of a topic that no hop of their store reads."),
    )
}
"""Every metric there is, in the order in which it is written."""


@dataclass(frozen=True)
class Sample:
    """A value of a metric; a fraction stays exact until it is written."""

    metric: str
    labels: Mapping[str, str]
    value: float | Fraction


def read_store_metrics(routes: Routes) -> dict[str, tuple[Sample, ...]]:
    """What each store that answers says of itself, by its name. Who does not answer is missing: `read_status` says why."""
    stores = tuple(routes.stores.values())
    with ThreadPoolExecutor(max(1, len(stores)), thread_name_prefix="relaybox-metrics") as pool:
        answers = zip(stores, pool.map(read_metrics_of, stores), strict=True)
        return {store.name: samples for store, samples in answers if samples is not None}


def read_metrics_of(store: Store) -> tuple[Sample, ...] | None:
    """What one store says of itself; None: it did not answer."""
    try:
        with store_session(store, "reading its store_metrics", application_name="relaybox metrics") as session:
            samples = session.rows(Sample, "select metric, labels, value from relaybox_internal.store_metrics()")
    except errors.RelayboxError:
        return None  # relaybox_store_up and relaybox_hop_error tell
    return tuple(replace(sample, labels={"store": store.name, **sample.labels}) for sample in samples)


def collect(status: Status, store_metrics: Mapping[str, tuple[Sample, ...]]) -> list[Sample]:
    """All samples: what the hops' ledgers gave, and what the stores said of themselves."""
    own = {
        (sample.metric, sample.labels.get("hop"), sample.labels.get("watermark")): sample.value
        for each in store_metrics.values()
        for sample in each
    }
    samples = [*_stores(status), *(sample for each in store_metrics.values() for sample in each)]
    for hop in status.hops:
        samples += _hop(hop)
        samples += _unhappiness(status, hop, own)
    for route in status.routes:
        samples += _delivery("route", {"route": route.route.name}, route.delivery, route.received)
    return samples


def render(samples: Iterable[Sample]) -> str:
    """OpenMetrics text of samples; serve it as CONTENT_TYPE. A family without a sample is left out."""
    by_metric: dict[str, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    text: bytes = exposition.generate_latest(_Families(by_metric))
    return text.decode()


def _stores(status: Status) -> Iterator[Sample]:
    for store in dict.fromkeys(store for hop in status.hops for store in (hop.hop.source.name, hop.hop.destination.name)):
        yield Sample("relaybox_store_up", {"store": store}, float(store not in status.errors))
    for topic in status.unrouted:
        yield Sample("relaybox_unrouted_messages", {"store": topic.store, "topic": topic.topic}, topic.message_count)
    for one in status.reader_problems:
        labels = {"store": one.store, "stream": one.stream, "subscription": one.subscription, "problem": str(one.kind)}
        yield Sample("relaybox_reader_problem", labels, 1.0)


def _hop_labels(hop: HopStatus) -> dict[str, str]:
    return {"hop": hop.hop.name, "route": hop.hop.route}


def _hop(hop: HopStatus) -> Iterator[Sample]:
    labels = _hop_labels(hop)
    values = {
        "sent_messages_total": hop.sent,
        "received_messages_total": hop.received,
        "settled_messages_total": hop.settled_through,
        "lag_messages": hop.lag_messages,
        "lag_seconds": None if hop.lag_messages is None else hop.lag_seconds or 0.0,
        "target_lag_seconds": hop.hop.limits.target_lag_seconds,
        "driven": hop.driven,
    }
    yield from (Sample(f"relaybox_hop_{name}", labels, float(value)) for name, value in values.items() if value is not None)
    yield from _delivery("hop", labels, hop.delivery, hop.received)
    for error in sorted({type(error).__name__ for error in hop.errors}):
        yield Sample("relaybox_hop_error", {**labels, "error": error}, 1.0)


def _delivery(of: str, labels: Mapping[str, str], delivery: Delivery | None, received: int | None) -> Iterator[Sample]:
    if delivery is not None and not is_no_reading(delivery, received):
        yield Sample(f"relaybox_{of}_reliability", labels, delivery.reliability)
        yield Sample(f"relaybox_{of}_uniqueness", labels, delivery.uniqueness)


def _unhappiness(
    status: Status, hop: HopStatus, own: Mapping[tuple[str, str | None, str | None], float | Fraction]
) -> Iterator[Sample]:
    """What needs both: the ledgers' times, and the age of the oldest message that waits."""
    if hop.lag_messages is None:
        return
    labels, name = _hop_labels(hop), hop.hop.name
    ages = [float(own.get(("relaybox_watermark_age_seconds", name, watermark), 0.0)) for watermark in ("received", "settled")]
    waiting = hop.lag_seconds or 0.0
    yield Sample("relaybox_hop_oldest_unsettled_seconds", labels, max(waiting, *ages))
    progress_at = own.get(("relaybox_hop_progress_timestamp_seconds", name, None))
    since_progress = status.measured_at.timestamp() - float(progress_at) if progress_at is not None else waiting
    blocked = max(0.0, min(waiting, since_progress)) if hop.lag_messages else 0.0
    yield Sample("relaybox_hop_blocked_seconds", labels, blocked)
    yield Sample("relaybox_watermark_age_seconds", {**labels, "watermark": "sent"}, blocked)


class _Families:
    """The samples as prometheus_client takes them from a collector, in the order of METRICS."""

    def __init__(self, by_metric: Mapping[str, Sequence[Sample]]) -> None:
        self._by_metric = by_metric

    def collect(self) -> Iterator[metrics_core.Metric]:
        for metric in METRICS.values():
            if found := self._by_metric.get(metric.name):
                family = metrics_core.Metric(metric.name.removesuffix("_total"), metric.help, metric.kind)
                for sample in found:
                    family.add_sample(sample.metric, dict(sample.labels), _at_most(sample.value))
                yield family


def _at_most(value: float | Fraction) -> float:
    """The largest float that is not above the value: a fraction below 1 never becomes 1."""
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)
