"""A consumer that waits for its messages, above psycopg2 alone: copy what you need. `python wait.py SERVICE SUBSCRIPTION`.

SERVICE is a section of the libpq service file. The work is an insert into public.effect; put yours there. It ends with Ctrl-C.
"""

from __future__ import annotations

import select
import sys
import time
from contextlib import suppress
from typing import Any

import psycopg2

WORKER = "python-1"  # one for each process, the same after a restart


def consume(store: Any, subscription: str) -> None:
    """Fetches and handles messages until a fetch gives none."""
    with store.cursor() as cursor:
        while True:
            cursor.execute(
                "select stream_position, token, payload from relaybox.fetch(%s, 100, worker => %s)", (subscription, WORKER)
            )
            messages = cursor.fetchall()
            store.commit()  # the fetch by itself: a message that kills the process is counted
            if not messages:
                return
            for stream_position, token, payload in messages:
                cursor.execute("insert into public.effect (stream_position, payload) values (%s, %s)", (stream_position, payload))
                cursor.execute("select relaybox.ack(%s, %s, %s)", (subscription, stream_position, token))
                store.commit()  # work and acknowledgement together


def wait(store: Any, subscription: str) -> None:
    """Waits for a notification, at most as long as the store says. Outside a transaction: inside one, nothing is heard."""
    with store.cursor() as cursor:
        cursor.execute("select relaybox.listen(%s)", (subscription,))  # again and again: it listens once
        store.commit()  # it listens from here on, so what is delivered before makes the next answer 1 second at most
        cursor.execute("select relaybox.rest_seconds(%s)", (subscription,))
        ends_at = time.monotonic() + cursor.fetchone()[0]
    store.commit()
    while not store.notifies:  # those that came with the last answers are there already
        readable, _, _ = select.select([store], [], [], max(0.0, ends_at - time.monotonic()))
        if not readable:
            break
        store.poll()
    store.notifies.clear()


def main(service: str, subscription: str) -> None:
    """Consumes, and waits for more."""
    store = psycopg2.connect(service=service)
    with suppress(KeyboardInterrupt):
        while True:
            consume(store, subscription)
            wait(store, subscription)


if __name__ == "__main__":
    main(*sys.argv[1:])
