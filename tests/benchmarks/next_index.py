"""`python -m tests.benchmarks.next_index`: what relaybox.next_index() costs a sender with several sessions, on a cluster of its own.

Each transaction inserts one message and commits. Rounds alternate, so that a slow moment of the machine hits both.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from statistics import median

import psycopg2

from tests.benchmarks.one_store import one_store

SESSIONS, ROUNDS, SECONDS = 4, 5, 3.0

STATEMENTS = {
    "without": "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'pump', 'x')",
    "with next_index()": (
        "insert into relaybox.outbox (topic, sender, epoch, index, payload) "
        "values ('flights', 'pump', relaybox.sender_epoch('pump'), relaybox.next_index('pump'), 'x')"
    ),
    "with next_index(), a sender per session": (
        "insert into relaybox.outbox (topic, sender, epoch, index, payload) values "
        "('flights', 'pump' || %(n)s, relaybox.sender_epoch('pump' || %(n)s), relaybox.next_index('pump' || %(n)s), 'x')"
    ),
}


def measure(parameters: dict[str, str], statement: str) -> float:
    """Messages per second of all sessions together."""
    counts, until = [0] * SESSIONS, time.monotonic() + SECONDS

    def send(number: int) -> None:
        with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            while time.monotonic() < until:
                cursor.execute(statement, {"n": number})
                counts[number] += 1

    threads = [threading.Thread(target=send, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def main() -> None:
    rates: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    with one_store() as parameters:
        _declare_senders(parameters)
        for _ in range(ROUNDS):
            for name, statement in STATEMENTS.items():
                rates[name].append(measure(parameters, statement))
    plain = median(rates["without"])
    print(f"{SESSIONS} sessions, one message per transaction, median of {ROUNDS} rounds of {SECONDS:.0f} s")
    for name, measured in rates.items():
        print(f"{name:<40} {median(measured):7.0f} messages/s   {median(measured) / plain:.2f}")


def _declare_senders(parameters: dict[str, str]) -> None:
    """A sender for all sessions, and one for each."""
    with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        for sender in ("pump", *(f"pump{number}" for number in range(SESSIONS))):
            cursor.execute("select relaybox.declare_sender(%s, 'gapless')", (sender,))
        connection.commit()


if __name__ == "__main__":
    main()
