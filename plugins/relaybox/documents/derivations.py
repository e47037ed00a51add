"""Answers of `relaybox derive` and `relaybox trials`."""

from __future__ import annotations

from typing import Any

from relaybox.documents.document import Document, Time


class DerivationDocument(Document):
    """The answer of `relaybox derive`: what this run did."""

    route: str
    version: int
    attempts: int
    """Attempts that published."""
    messages: int
    """Messages of the stream, of which they derived."""
    derived: int
    """Messages that they sent."""
    dead_letters: int
    """Messages for which the function fails, which this run set aside."""


class DerivationPreviewDocument(Document):
    """The answer of `relaybox derive --dry-run`: what the function returns for the next messages."""

    route: str
    version: int
    source: str
    """`package.module:function`, or `sql`."""
    first_stream_position: int
    """At which the derivation goes on, or would begin."""
    last_stream_position: int
    """Of the messages that the function got; below the first: there are none."""
    messages: int
    """Messages that the function got."""
    derived: int
    """Messages that it would send."""
    samples: list[dict[str, Any]]
    """The first of these, by column."""
    refused: str | None
    """Why a run would be refused now, such as another function under the same version."""


class TrialDocument(Document):
    """The answer of `relaybox trials run`: the trial, which has derived from its whole range."""

    trial_id: int
    version: int
    """That is tried."""
    old_version: int
    """That goes on meanwhile."""
    source_name: str
    """`package.module:function`, or `sql`."""
    first_stream_position: int
    last_stream_position: int
    """Of the range; it is included."""
    done_stream_position: int
    """Through which the trial has derived."""
    begun_at: Time
    begun_by: str


class TopicDifferenceDocument(Document):
    """How many messages of a topic are equal, differ, or are in one output only."""

    topic: str
    equal: int
    changed: int
    only_old: int
    only_new: int


class SampleDocument(Document):
    """A message that differs. A side that is not there is null."""

    difference: str
    """`changed`, `only_old` or `only_new`."""
    topic: str
    key: str | None
    stream_position: int | None
    """The message that caused it; null: it has no single cause."""
    old_headers: str | None
    """JSON, without `derived_from`."""
    old_payload: str | None
    """Bytes as Postgres shows them."""
    new_headers: str | None
    new_payload: str | None


class TrialComparisonDocument(Document):
    """The answer of `relaybox trials compare`."""

    trial: TrialDocument
    compared_from: int
    """The first stream position that is compared: before it the outbox does not keep all of the old version."""
    set_aside: int
    """Messages of the range for which the new function fails."""
    changed_keys: int
    """Keys of which a message differs."""
    is_equal: bool
    topics: list[TopicDifferenceDocument]
    samples: list[SampleDocument]


class TrialEndDocument(Document):
    """The answer of `relaybox trials promote` and `drop`."""

    route: str
    trial_id: int
    version: int
    """That was tried."""
    state: str
    """`promoted` or `dropped`."""
    first_stream_position: int | None
    """From which the promoted version derives; null: it was dropped."""
