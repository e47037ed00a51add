"""Where a replay waits until its range is read: in the triggerer, and in no slot of the executor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from relaybox.airflow.store_watch import StoreQuestion, poll_store
from relaybox.log_events import emit
from relaybox.routes import Watch
from relaybox.subscriptions.replays import OpenRange, read_open_ranges

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Session

    from relaybox.routes import Store

OpenRanges = Mapping[str, OpenRange]


class ReplayTrigger(BaseEventTrigger):
    """Fires when a second cursor no longer reads a range. All replays of a store share one session to it.

    An event trigger, because Airflow shares the streams of these only; it ends with its first event.

    Args:
        connection: the Airflow connection of the store. Its id only: the credentials are read in the triggerer.
        cursor: the name of the second cursor.
        replay: the number of the range; 0: the cursor was opened without one.
        poll_seconds: the time between two looks at a store whose replays move.
        max_poll_seconds: the longest time between two looks at a store whose replays don't move.
        backoff: the factor from one such time to the next.
    """

    def __init__(
        self, *, connection: str, cursor: str, replay: int, poll_seconds: float, max_poll_seconds: float, backoff: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.connection = connection
        self.cursor = cursor
        self.replay = replay
        self.poll_seconds = poll_seconds
        self.max_poll_seconds = max_poll_seconds
        self.backoff = backoff

    @classmethod
    def at(cls, store: Store, cursor: str, replay: int | None) -> ReplayTrigger:
        """Polls the store as its `watch` says."""
        watch = store.watch
        return cls(
            connection=store.connection,
            cursor=cursor,
            replay=replay or 0,
            poll_seconds=watch.interval_seconds,
            max_poll_seconds=watch.max_interval_seconds,
            backoff=watch.backoff,
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "connection": self.connection,
                "cursor": self.cursor,
                "replay": self.replay,
                "poll_seconds": self.poll_seconds,
                "max_poll_seconds": self.max_poll_seconds,
                "backoff": self.backoff,
            },
        )

    def shared_stream_key(self) -> Hashable:
        return ("relaybox replays", self.connection, self.poll_seconds, self.max_poll_seconds, self.backoff)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[OpenRanges]:
        watch = Watch(kwargs["poll_seconds"], kwargs["max_poll_seconds"], kwargs["backoff"], listen=False)
        async with aclosing(poll_store(kwargs["connection"], _question(), watch=watch)) as polls:
            async for ranges in polls:
                yield ranges

    async def filter_shared_stream(self, shared_stream: AsyncIterator[OpenRanges]) -> AsyncIterator[TriggerEvent]:
        async for ranges in shared_stream:
            read = ranges.get(self.cursor)
            if read is None or read.replay != self.replay:
                emit("replay_moved_on", cursor=self.cursor, replay=self.replay)
                yield TriggerEvent({"cursor": self.cursor, "replay": self.replay})  # type: ignore[no-untyped-call]
                return

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Airflow runs shared streams by the methods above; alone, the trigger is its own only subscriber."""
        _, kwargs = self.serialize()
        async for event in self.filter_shared_stream(self.open_shared_stream(kwargs)):
            yield event


def _question() -> StoreQuestion[OpenRanges]:
    """A store whose replays don't move, because nobody reads them, is polled less and less often if it may sleep."""
    seen: list[OpenRanges] = []

    def moves(ranges: OpenRanges) -> bool:
        has_moved = ranges not in seen
        seen[:] = [ranges]
        return has_moved

    return StoreQuestion("relaybox replay watch", _ask, moves)


def _ask(session: Session) -> OpenRanges:
    with session.cursor() as cursor:
        return read_open_ranges(cursor)
