"""A streaming query over a stream: offsets are stream positions, so a restart from a checkpoint reads exactly the rest."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from relaybox.spark.frames.batch_reader import read_partition
from relaybox.spark.frames.options import refuse
from relaybox.spark.frames.query_subscription import QuerySubscription
from relaybox.spark.frames.ranges import (
    PinnedMessage,
    StreamPartition,
    cut_range,
    pin_message,
    pin_range,
    require_message,
    require_range,
)

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2 a query reads all that is there in each micro-batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """What Spark does not ask for."""

    ReadAllAvailable = ReadLimit = ReadMaxRows = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql.types import StructType

    from relaybox.spark.frames.options import ReadOptions

POSITION, STORE_ID, QUERY, FIRST = "stream_position", "store_id", "query", "first_stream_position"
"""Of an offset: the stream position through which the query has read, the store that has it, the id of the query, and where it began."""
MESSAGE_ID = "message_id"
"""Of an offset: the message at its stream position, which another history of the store has not. None: it was not kept."""

Offset = Mapping[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what arrives. An offset names its store, so a checkpoint of another store is refused.

    Spark keeps no offset of where a query begins until its first micro-batch is done: it asks for it again, and would get
    another one (`latest`, or `earliest` after retention). So each later offset has it too, with an id of the query.
    """

    def __init__(self, options: ReadOptions, columns: StructType) -> None:
        if ReadMaxRows is None:
            for name in ("max_messages_per_batch", "subscription"):
                if getattr(options, name) is not None:
                    raise refuse(f"option {name} needs pyspark 4.2.", "Install pyspark 4.2 or later, or leave it out.")
        self.options = options
        self.columns = columns
        self._stops_at: int | None = None
        self._has_subscription = False

    def initialOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802
        pinned = pin_range(self.options.store, self.options.stream, self.options.start, None, with_files=True)
        first = pinned.first_stream_position
        return {POSITION: first - 1, STORE_ID: pinned.store_id, QUERY: str(uuid.uuid4()), FIRST: first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.options.max_messages_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(  # type: ignore[override]  # noqa: N802
        self, start: Offset | None = None, limit: ReadLimit | None = None
    ) -> Offset:
        """The newest stream position, or the last one that the limit allows."""
        newest = pin_range(self.options.store, self.options.stream, "latest", None)
        if start is None:
            return {POSITION: newest.newest_stream_position, STORE_ID: newest.store_id}
        through = newest.newest_stream_position if self._stops_at is None else self._stops_at
        if through < start[POSITION] or newest.store_id != start[STORE_ID]:
            self._require(start, start[POSITION] + 1, start[POSITION])
        if ReadMaxRows is not None and isinstance(limit, ReadMaxRows):
            through = min(through, start[POSITION] + limit.max_rows)
        if through <= start[POSITION]:
            return start
        return {**start, POSITION: through, MESSAGE_ID: self._message_at(through)}

    def reportLatestOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802
        return self.latestOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        newest = pin_range(self.options.store, self.options.stream, "latest", None)
        self._stops_at = newest.newest_stream_position

    def partitions(self, start: Offset, end: Offset) -> Sequence[StreamPartition]:
        """Of a micro-batch, also of one that a checkpoint has and that is run again. All before it is done: acknowledges that."""
        is_first = start.get(QUERY) != end.get(QUERY)  # asked again: see above
        first, last = end[FIRST] if is_first else start[POSITION] + 1, end[POSITION]
        self._require(end, first, last)
        for offset in (start, end):
            self._require_message(offset)
        self._acknowledge(end, first - 1)
        return cut_range(end[STORE_ID], first, last, self.options.partition_messages, pinned=_pinned(end))

    def commit(self, end: Offset) -> None:
        """The micro-batch that ends there is done."""
        if self.options.subscription is not None:
            self._require(end, end[POSITION] + 1, end[POSITION])
            self._require_message(end)
            self._acknowledge(end, end[POSITION])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options, partition, columns=self.columns)

    def _acknowledge(self, offset: Offset, through: int) -> None:
        if self.options.subscription is None:
            return
        if QUERY not in offset:
            raise refuse(
                "the checkpoint is of a version of Relaybox whose queries had no subscription.",
                "Leave out option subscription, or begin with a new checkpoint.",
            )
        subscription = QuerySubscription(self.options.store, self.options.stream, self.options.subscription, offset[QUERY])
        if not self._has_subscription:
            subscription.begin(through + 1)
            self._has_subscription = True
        subscription.ack(through)

    def _require_message(self, offset: Offset) -> None:
        require_message(self.options.store, self.options.stream, _pinned(offset))

    def _message_at(self, position: int) -> str | None:
        found = pin_message(self.options.store, self.options.stream, position)
        return None if found is None else found.message_id

    def _require(self, offset: Offset, first: int, last: int) -> None:
        require_range(self.options.store, self.options.stream, offset[STORE_ID], first, last)


def _pinned(offset: Offset) -> PinnedMessage | None:
    message_id = offset.get(MESSAGE_ID)
    return None if message_id is None else PinnedMessage(offset[POSITION], message_id)
