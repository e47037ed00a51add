"""A small version of the demo over three days, and the consumers that read it: live, and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.consumer import Consumer
from relaybox.local.demo.flights import message_of, read_flights

if TYPE_CHECKING:
    from tests.support.world import World

STORE, SUBSCRIPTION = "analytics", "billing"
DAYS = ("2026-07-01", "2026-07-02", "2026-07-03", "2026-07-04", "2026-07-05")
CARRIER = "UA"


@dataclass
class Reader:
    """A consumer of one cursor, and what it has read: stream position, whether it was marked as replayed, payload."""

    store: str
    cursor: str
    poll_seconds: float = 0.1
    read: list[tuple[int, bool, str]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def stream_positions(self) -> list[int]:
        return [stream_position for stream_position, _, _ in self.read]

    def run(self) -> None:
        """Reads until it is stopped; a cursor that is not there yet is waited for."""
        while not self._ended.is_set():
            try:
                with Consumer(self.store, self.cursor, until_empty=True, poll_seconds=self.poll_seconds) as consumer:
                    for message in consumer:
                        self.read.append((message.stream_position, message.replayed, message.payload or ""))
                        if self._ended.is_set():
                            consumer.stop()
            except (errors.NotSubscribed, errors.Transient):
                pass
            self._ended.wait(self.poll_seconds)

    def stop(self) -> None:
        self._ended.set()


@contextmanager
def reading(cursor: str, store: str = STORE) -> Iterator[Reader]:
    """A consumer beside the test."""
    reader = Reader(store, cursor)
    thread = threading.Thread(target=reader.run, name=f"reader of {cursor}")
    thread.start()
    try:
        yield reader
    finally:
        reader.stop()
        thread.join()


@contextmanager
def live_traffic(world: World) -> Iterator[None]:
    """A producer that sends a message every few milliseconds, beside the test."""
    ended = threading.Event()

    def produce() -> None:
        number = 0
        with world.session(autocommit=True) as connection, connection.cursor() as cursor:
            while not ended.wait(0.05):
                number += 1
                cursor.execute(
                    "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'live', %s)", (f"live {number}",)
                )

    thread = threading.Thread(target=produce, name="live traffic")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def deliver_days(world: World) -> None:
    """Five days of one carrier's flights, as if each had been delivered on its day at noon; and a subscription to them."""
    world.query(STORE, "select relaybox.subscribe(%s, 'flights')", SUBSCRIPTION)
    days = groupby(read_flights([CARRIER]), key=lambda row: row["scheduled_at"][:10])
    for day, (_, rows) in zip(DAYS, days, strict=False):
        with world.session() as producer, producer.cursor() as cursor:
            for message in map(message_of, rows):
                cursor.execute(
                    "insert into relaybox.outbox (topic, sender, key, payload) values (%(topic)s, %(sender)s, %(key)s, %(payload)s)",
                    message,
                )
            producer.commit()
        world.transfer_all()
        world.query(
            STORE,
            "update relaybox_internal.decision set decided_at = %s where decided_at > now() - interval '1 day'",
            f"{day} 12:00+00",
        )
    world.settle_all()


def stream_positions_of_days(world: World) -> dict[str, list[int]]:
    """Which stream positions were delivered on each day, by the store's own ledger."""
    decided = world.query(
        STORE, "select decided_at::date::text, last_stream_position from relaybox_internal.decision order by last_stream_position"
    )
    ends = {day: last for day, last in decided if day in DAYS}
    starts = [0, *ends.values()]
    return {day: list(range(start + 1, end + 1)) for start, (day, end) in zip(starts, ends.items(), strict=False)}
