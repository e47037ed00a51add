"""Answers of `relaybox retention`, `attach` and `retire`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from relaybox.documents.document import Document, Time
from relaybox.documents.payloads import PlaceCollectedDocument
from relaybox.documents.status import OrphanedHopDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.retention.detaching import StoreDetached
    from relaybox.retention.retiring import UnroutedBacklog
    from relaybox.retention.segments import StoreRetained


class SegmentDocument(Document):
    """Seqs or positions first to last, both included."""

    name: str
    first: int
    last: int
    size_bytes: int


class HolderDocument(Document):
    """Who needs a table from where on."""

    kind: str
    """hop, subscription, awaited, dead letter, delayed message, held, stalled, undecided, window, deduplication, unrouted or newest.

    awaited: relaybox.yaml names it, and it has not subscribed yet, or its subscription of `processed_by` was ended; or relaybox.yaml brings
    a topic of an open subscription in this stream now, and nothing keeps its messages here.
    """
    name: str
    needs_from: int
    """The first seq or position that it needs; 0: all of it."""
    since: Time | None
    """Since when that waits; null where nothing waits."""
    stopped_consumer: str | None
    """keep, alarm or detach, of a consumer; else null."""
    detachable: bool
    """It has stopped, and what only it needs may be detached."""
    what: str | None
    """Of one that is awaited: that it is, and from where on; else null."""
    next_step: str | None
    """Of one that is awaited: how it subscribes or goes on, or is awaited no longer; else null."""


class KeptTable(Document):
    """The outbox of a store, or the log of a hop that arrives in it; the oldest segment first."""

    hop: str | None
    """Null: the outbox."""
    segments: list[SegmentDocument]
    holders: list[HolderDocument]
    name: str
    size_bytes: int
    droppable: list[SegmentDocument]
    """Segments that no hop and no subscription needs."""
    detachable: list[SegmentDocument]
    """Segments that only stopped consumers need."""
    detachable_for: list[str]
    """These consumers."""


class KeptStore(Document):
    """What a store keeps."""

    store: str
    tables: list[KeptTable]


class KeptDocument(Document):
    """The answer of `relaybox retention --dry-run`."""

    stores: list[KeptStore]
    payloads: list[PlaceCollectedDocument]
    """Of each place in the section payloads; empty if only some stores are named."""
    errors: dict[str, str]
    """By store or place."""


class DetachedSegmentDocument(Document):
    """A segment of a log that is in files."""

    hop: str
    first: int
    last: int
    state: str
    """detaching, detached, attached or released."""
    directory: str
    row_count: int
    needed_by: list[str]
    """The subscriptions that needed it when it was detached."""


class DetachedStore(Document):
    """What one run detached in a store."""

    store: str
    segments: list[DetachedSegmentDocument]
    kept: dict[str, str]
    """By hop, why the next segment was left: who needs it now, or holds it."""
    removed: list[str]
    """Directories that no consumer needs any more."""


class RetainedTable(Document):
    """What one run did with a table."""

    hop: str | None
    """Null: the outbox."""
    dropped_count: int
    """Segments."""
    dropped_bytes: int
    outcome: Literal["kept", "busy", "none"]
    """Why it dropped no more: a holder needs the next segment, sessions hold the table, or no segment is left."""
    holder: str | None
    """Kind and name in one text; or a sentence, such as which session holds the table."""
    holder_kind: str | None
    """As of HolderDocument; null where holder is a sentence."""
    holder_name: str | None
    """Null where holder is a sentence."""
    needs_from: int | None
    """The first seq or position that the holder needs."""
    awaited: str | None
    """A reader that is awaited there, also where another holder comes first; null: none is."""
    next_step: str | None
    """How that reader subscribes, or is awaited no longer, and how many others are awaited. Null: none is."""


class RetainedStore(Document):
    """What one run did in a store."""

    store: str
    tables: list[RetainedTable]
    compacted_count: int
    """Batches whose ledger rows were removed: of each of them no message is kept here."""
    compacted_attempt_count: int
    """Attempts of derivations whose records were removed: of each of them no message is kept here."""
    released_count: int
    """Detached segments that no consumer needs any more."""
    dropped_bytes: int
    detached: DetachedStore | None

    @classmethod
    def of(cls, dropped: StoreRetained, detached: StoreDetached | None) -> RetainedStore:
        return cls(
            store=dropped.store,
            tables=[RetainedTable.model_validate(table) for table in dropped.tables],
            compacted_count=dropped.compacted_count,
            compacted_attempt_count=dropped.compacted_attempt_count,
            released_count=dropped.released_count,
            dropped_bytes=dropped.dropped_bytes,
            detached=None if detached is None else DetachedStore.model_validate(detached),
        )


class RetentionDocument(Document):
    """The answer of `relaybox retention`."""

    stores: list[RetainedStore]
    payloads: list[PlaceCollectedDocument]
    """Of each place in the section payloads; empty if only some stores are named."""
    errors: dict[str, str]
    """By store or place."""


class AttachDocument(Document):
    """The answer of `relaybox attach`: the segments that came back, or with --dry-run would."""

    store: str
    segments: list[DetachedSegmentDocument]


class RetireDocument(Document):
    """The answer of `relaybox retire`."""

    hops: list[OrphanedHopDocument]
    errors: dict[str, str]
    """By store: whether it has hops that the file has not is unknown, or a hop was not retired."""


class OrphanedTopic(Document):
    """Messages of a topic that was taken from a hop before they were planned."""

    hop: str
    store: str
    topic: str
    message_count: int
    first_sent_at: Time
    retired: bool


class RetireTopicDocument(Document):
    """The answer of `relaybox retire --topic`."""

    topics: list[OrphanedTopic]

    @classmethod
    def of(cls, topics: Sequence[UnroutedBacklog], *, retired: bool) -> RetireTopicDocument:
        return cls(topics=[OrphanedTopic.model_validate({**asdict(topic), "retired": retired}) for topic in topics])
