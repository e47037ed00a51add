"""`python -m tests.benchmarks.put_once`: a put of many messages, against one insert for each of them, on a cluster of its own.

Both are one transaction through one session. Rounds alternate, so that a slow moment of the machine hits both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from typing import Any

import psycopg2

from relaybox.outbox import Draft, put, put_once
from tests.benchmarks.one_store import one_store

MESSAGES, ROUNDS = 100_000, 3
DRAFTS = [Draft("flights", {"flight": n, "gate": "B12"}, key=f"k{n % 100}") for n in range(MESSAGES)]


def put_one_by_one(cursor: Any, key: str) -> None:
    for draft in DRAFTS:
        put(cursor, draft.topic, key, draft.payload, key=draft.key)


def put_together(cursor: Any, key: str) -> None:
    put_once(cursor, key, key, DRAFTS)


def put_numbered(cursor: Any, key: str) -> None:
    cursor.execute("select relaybox.declare_sender(%s, 'gapless')", (key,))
    put_once(cursor, key, key, DRAFTS, numbered=True)


WAYS: dict[str, Callable[[Any, str], None]] = {
    "an insert for each message": put_one_by_one,
    "put_once()": put_together,
    "put_once(numbered=True)": put_numbered,
}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    with one_store() as parameters:
        for number in range(ROUNDS):
            for name, way in WAYS.items():
                with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
                    begun = time.monotonic()
                    way(cursor, f"{way.__name__}-{number}")
                    connection.commit()
                    seconds[name].append(time.monotonic() - begun)
    slowest = median(seconds["an insert for each message"])
    print(f"{MESSAGES} messages in one transaction, median of {ROUNDS} rounds")
    for name, measured in seconds.items():
        print(f"{name:<28} {median(measured):6.1f} s   {median(measured) / slowest:.2f}")


if __name__ == "__main__":
    main()
