"""Answers of `relaybox subscriptions`, `consume` and `replay`."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from pydantic import PlainSerializer, WithJsonSchema

from relaybox.documents.document import Document, SentObject, Time
from relaybox.documents.readers import ReaderProblemDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.stores.readers.reader_problems import ReaderProblem
    from relaybox.subscriptions.subscriptions import SubscriptionStatus


class SubscriptionDocument(Document):
    """One subscription; stream positions are those of its slowest lane, of all topics of the stream."""

    store: str
    subscription: str
    stream: str
    topic: str | None
    lanes: int
    replay_of: str | None
    done_stream_position: int
    last_stream_position: int
    stream_positions_behind: int
    replaying: bool
    leased_lanes: int
    dead_letters: int
    moved_at: Time
    lane_by: str
    nack_limit: int
    crash_limit: int
    hold_sender: bool
    retry_seconds: int
    lease_seconds: int
    lane_stream_positions: list[int]
    """How far each lane is done, in their order."""
    done_message_id: str | None
    """Of the message at `done_stream_position`; null where there is none, or where it is no longer kept."""
    dead_letter_stream_positions: list[int]
    """Of the dead letters that need a decision."""
    detached_stream_positions: int
    """Stream positions that it has not read and that are in files: `relaybox attach` brings them back."""
    delayed: str
    """hold, pass or ignore: what becomes of the messages behind one that is not due."""
    held_lanes: int
    """Lanes that wait until a delayed message is due."""
    delayed_messages: int
    """Messages that were passed, and come when they are due."""
    due_at: Time | None
    """When the next of both is due, as the newest fetches found; null: none is known."""
    delayed_stream_positions: list[int]
    """Of the messages that were passed and are not acknowledged."""


class SubscriptionsDocument(Document):
    """The answer of `relaybox subscriptions`."""

    subscriptions: list[SubscriptionDocument]
    reader_problems: list[ReaderProblemDocument]
    """Subscriptions that get nothing, or less than they should, and readers of relaybox.yaml that have none."""
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(
        cls, subscriptions: Sequence[SubscriptionStatus], problems: Sequence[ReaderProblem], errors: dict[str, str]
    ) -> SubscriptionsDocument:
        return cls(
            subscriptions=[SubscriptionDocument.model_validate(one) for one in subscriptions],
            reader_problems=[ReaderProblemDocument.model_validate(problem) for problem in problems],
            errors=errors,
        )


class ReplayDocument(Document):
    """The answer of `relaybox replay`: counts are estimates where a topic is filtered."""

    store: str
    replayed_as: str | None
    """The subscription, or the name of its second cursor; null: nothing was begun, since the range is empty."""
    first_stream_position: int
    last_stream_position: int
    message_count: int
    byte_count: int
    estimated_seconds: float
    dry_run: bool


class CancelledReplayDocument(Document):
    """The answer of `relaybox replay --cancel`."""

    subscription: str
    cancelled: bool


def _base64(payload: bytes | None) -> str | None:
    return None if payload is None else b64encode(payload).decode()


class MessageDocument(Document):
    """A line of `relaybox consume`: one message as it was sent, with its stream position in the stream."""

    stream_position: int
    lane: int
    token: str
    """Which fetch gave the message."""
    replayed: bool
    """It was acknowledged before, and is read again in a replay."""
    attempt: int
    hop: str
    log_position: int
    message_id: UUID
    """The same in every store and every replay."""
    topic: str
    sender: str
    epoch: int
    index: int
    key: str | None
    payload: str | None
    payload_bytes: Annotated[
        bytes | None,
        PlainSerializer(_base64, return_type=str | None, when_used="json"),
        WithJsonSchema({"anyOf": [{"type": "string", "contentEncoding": "base64"}, {"type": "null"}]}),
    ]
    """In base64."""
    headers: SentObject
    """Each number has the value that was sent, with all its digits."""
    clock: SentObject
    sent_at: Time
