"""Answers of `relaybox webhook` and `relaybox kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Time
from relaybox.documents.readers import ReaderProblemDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.sinks.states import SinkStatus


class SinkDocument(Document):
    """A webhook, or a sink of Kafka. What its subscription has is null until its first run has subscribed, and after that was ended."""

    name: str
    kind: str
    """`webhook` or `kafka`."""
    store: str
    stream: str
    subscription: str
    endpoint: str
    """The URL without its query; or the brokers, and the topic unless it is that of each message."""
    waiting_count: int | None
    """Stream positions that are not acknowledged, of all topics of the stream."""
    dead_letters: int | None
    failing_since: Time | None
    """Null: the endpoint takes messages, as far as is known."""
    failure_count: int
    """Failed attempts since then."""
    retry_at: Time | None
    """When the next attempt is due."""
    reason: str | None
    """What the endpoint answered to the newest attempt."""
    problem: ReaderProblemDocument | None
    """Why it delivers nothing, or less than its stream had; null: nothing is wrong with its subscription."""


class SinksDocument(Document):
    """The answer of `relaybox webhook list` and `relaybox kafka list`."""

    sinks: list[SinkDocument]
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, sinks: Sequence[SinkStatus], errors: dict[str, str]) -> SinksDocument:
        return cls(sinks=[SinkDocument.model_validate(sink) for sink in sinks], errors=errors)


class UnreadLaneDocument(Document):
    """A lane that had more messages when a run ended because its fetch returned none."""

    lane: int
    stream_positions: int
    worker: str | None
    """The worker that has leased it."""
    leased_until: Time | None


class SinkRunDocument(Document):
    """The answer of `relaybox webhook run` and `relaybox kafka run`, when the run ends."""

    sink: str
    subscription: str
    delivered_count: int
    """Confirmed by the endpoint, and acknowledged."""
    refused_count: int
    """Refusals of the endpoint, several of one message too."""
    dead_letter_count: int
    """Those of them that made a dead letter."""
    unread: list[UnreadLaneDocument]


class SinkRetriedDocument(Document):
    """The answer of `relaybox webhook retry` and `relaybox kafka retry`."""

    sink: str
    subscription: str
    was_failing: bool
