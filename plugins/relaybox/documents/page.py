"""Answers of the page's API. Errors are in plain words: no host, path or statement."""

from __future__ import annotations

from typing import Literal

from relaybox.documents.consumers import SubscriptionDocument
from relaybox.documents.dead_letters import DeadLetterDocument
from relaybox.documents.doctor import CheckResultDocument
from relaybox.documents.document import Document, Time
from relaybox.documents.holdback import HeldSenderDocument
from relaybox.documents.readers import ReaderProblemDocument
from relaybox.documents.status import HopDocument
from relaybox.documents.traces import TracesDocument
from relaybox.monitoring.doctor.check import CheckSeverity
from relaybox.monitoring.finding import Severity


class BlockerDocument(Document):
    """A transaction that has not ended."""

    pid: int | None
    """Of its backend; null: it is prepared and has none."""
    who: str
    state: str
    began_at: Time
    age_seconds: float
    query: str
    """The beginning of its newest statement; empty for users who may not run every hop that it may be about."""


class FindingDocument(Document):
    """One problem that stops or delays messages."""

    kind: str
    severity: Severity
    hop: str | None
    store: str
    since: Time | None
    what: str
    message_count: int | None
    """How many messages wait; null: unknown."""
    affected: list[str]
    """Hops that stop, of those that the user may read."""
    blocked_by: list[BlockerDocument]
    run_helps: bool
    next_step: str
    runbook: str


class PageHopDocument(HopDocument):
    """A hop as `relaybox status` shows it, with its health, its rate and its DAGs."""

    health: Literal["silent", "stuck", "held", "busy", "ok"]
    messages_per_second: float | None
    """That arrived in the last five minutes; null: its destination is silent."""
    transfer_dag: str
    confirm_dag: str


class OverviewDocument(Document):
    """Every hop that the user may read, and what is stuck."""

    measured_at: Time
    age_seconds: float
    hops: list[PageHopDocument]
    stuck: list[FindingDocument]


class IntervalDocument(Document):
    """What happened in one interval."""

    starts_at: Time
    planned_rows: int
    published_rows: int
    worst_delay_seconds: float | None
    """From sending to arrival, of the worst batch; null: no arrival."""


class BatchTimesDocument(Document):
    """The times of one batch; what has not happened, or is not known, is null."""

    batch: int
    row_count: int
    slice_count: int
    planned_at: Time
    copied_at: list[Time]
    """One time per slice that is copied."""
    published_at: Time | None
    received_at: Time | None
    processed_at: Time | None
    settled_at: Time | None
    moved_by: str | None
    application: str | None
    application_address: str | None
    """Where Spark shows the application."""


class ForecastDocument(Document):
    """How a backlog drains."""

    backlog: int
    arriving_per_second: float
    moving_per_second: float | None
    seconds_to_empty: float | None
    """Null: it does not drain at these rates, or nothing is known."""
    target_seconds: float
    misses_target: bool


class FlowDocument(Document):
    """A hop over time."""

    hop: str
    measured_at: Time
    interval_seconds: float
    intervals: list[IntervalDocument]
    """The oldest first."""
    batches: list[BatchTimesDocument]
    """The newest first."""
    forecast: ForecastDocument | None
    errors: list[str]


class StreamSenderDocument(HeldSenderDocument):
    """A sender whose messages wait, with the stream and the store where they do."""

    stream: str
    store: str


class StreamsDocument(Document):
    """What streams hold back, who reads them, and what was set aside: of the routes that the user may read."""

    held: list[StreamSenderDocument]
    subscriptions: list[SubscriptionDocument]
    dead_letters: list[DeadLetterDocument]
    reader_problems: list[ReaderProblemDocument]
    """Of these streams: subscriptions that get nothing, or less than they should, and readers of relaybox.yaml that have none."""
    silent: list[str]
    """Stores that did not answer."""
    unread: dict[str, str]
    """Stores that are not in the lists, the silent ones too: what is wrong, and what to do."""


class PageReportDocument(Document):
    """What doctor found in one store, as far as the page's login and you may see it."""

    store: str
    severity: CheckSeverity
    """The worst of its results."""
    results: list[CheckResultDocument]
    """Those that are not ok, the worst first."""
    ok_count: int
    is_whole: bool
    """False: results that can name hops that you may not read are left out."""
    age_seconds: float
    """Since the store was asked."""
    clock_ahead_seconds: float | None
    """Of its clock against that of the API server; null: it was not read."""


class PageDoctorDocument(Document):
    """What doctor found in the stores of the hops that you may read."""

    severity: CheckSeverity
    """The worst of all stores."""
    stores: list[PageReportDocument]
    """The worst first."""
    waiting: list[str]
    """Stores that are being examined for the first time."""


class FoundMessagesDocument(Document):
    """The messages that a search found."""

    messages: list[TracesDocument]


class StartedRunDocument(Document):
    """A run of a DAG that was started."""

    said: str
    dag_id: str
    run_id: str


class PausedDocument(Document):
    """Whether the DAGs of a hop are paused now."""

    said: str
    paused: bool


class CountedReplayDocument(Document):
    """What a replay would read."""

    said: str
    first_stream_position: int
    last_stream_position: int
    message_count: int
    byte_count: int
    estimated_seconds: float


class RefusalDocument(Document):
    """The answer to a request that is refused or can't be answered."""

    detail: str
