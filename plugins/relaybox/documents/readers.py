"""What is wrong with readers, as a part of the answers of status, verify, subscriptions, webhook and kafka."""

from __future__ import annotations

from relaybox.documents.document import Document
from relaybox.stores.readers.reader_problems import ProblemKind


class ReaderProblemDocument(Document):
    """A reader that gets nothing, or less than relaybox.yaml and its subscription say."""

    kind: ProblemKind
    """changed: the file gives a sink another stream, topic or setting than its subscription has, and its runs are refused. orphaned: no
    route of the file brings what a subscription reads. reduced: a subscription to all of a stream lost topics to another stream.
    without_sink: the file has no sink for the subscription. ended: the file names the reader, and its subscription was ended. awaited: the
    file names it, and it has not subscribed yet.
    """
    store: str
    reader: str
    """As people call it: subscription, webhook, kafka, export or derivation, and its name."""
    subscription: str
    """Its name in the store; of a derivation that is awaited, with a star for its version."""
    stream: str
    """That the subscription reads; of a reader that is awaited or ended, that the file names."""
    waiting_count: int | None
    """Stream positions that are not acknowledged; null: there is no subscription."""
    stops_settling: bool
    """Nothing more of a route is settled meanwhile (`processed_by`)."""
    what: str
    next_step: str
