"""The answer of `relaybox metrics --json`."""

from __future__ import annotations

from relaybox.documents.document import Document, Ratio, Time


class MetricSample(Document):
    """A value of a metric."""

    metric: str
    labels: dict[str, str]
    value: Ratio


class MetricsDocument(Document):
    """The answer of `relaybox metrics`: what its OpenMetrics text says."""

    measured_at: Time
    samples: list[MetricSample]
