"""The answer of `relaybox plan-retries`."""

from __future__ import annotations

from relaybox.documents.document import Document, Ratio


class MeasuredFailuresDocument(Document):
    """How often attempts at a batch failed, from the ledgers."""

    attempts: int
    failures: int


class DelayDocument(Document):
    """Between two attempts: Airflow draws one in between."""

    at_least_seconds: float
    at_most_seconds: float


class RetriesDocument(Document):
    """The section `retries` of relaybox.yaml that meets the target."""

    attempts: int
    delay_seconds: int
    backoff: float
    max_delay_seconds: int


class RetryPlanDocument(Document):
    """The answer of `relaybox plan-retries`."""

    failure_rate: Ratio
    measured: MeasuredFailuresDocument | None
    """Null where the failure rate was given."""
    target: Ratio
    outage_seconds: float
    attempts: int
    """The first one included."""
    reliability: str
    """That one attempt succeeds: more digits than a number has."""
    delays: list[DelayDocument]
    """Before the second attempt, the third, and so on."""
    waits_at_least_seconds: float
    """The longest outage that is surely outlasted."""
    waits_at_most_seconds: float
    retries: RetriesDocument
