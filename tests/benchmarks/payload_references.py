"""`python -m tests.benchmarks.payload_references [MESSAGES]`: how long a store takes to say which large payloads its messages refer to.

On a cluster of its own: an outbox of 1,000,000 messages, of which each tenth refers to a file, the others have 300 bytes and a header.
Rounds alternate with a plain count of the same rows.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from statistics import median

import psycopg2

from relaybox.payloads.store_references import read_references
from relaybox.stores.sessions.store_session import StoreSession
from tests.benchmarks.one_store import one_store

MESSAGES, ROUNDS = 1_000_000, 5

FILL = """
insert into relaybox.outbox (topic, sender, headers, payload)
select 'flights', 'UA',
    case when n %% 10 = 0 then jsonb_build_object('relaybox-payload', r.reference) else '{"trace": "4bf92f3577b34da6"}' end,
    case when n %% 10 = 0 then jsonb_build_object('relaybox-payload', r.reference)::text else repeat('x', 300) end
from generate_series(1, %s) n
cross join lateral (
    select jsonb_build_object(
        'place', '9c1b6a52-8a53-4c8e-9d6f-5b1f1f9f3c11', 'ref', '2026-11-28/20261128T032700Z-' || md5(n::text),
        'digest', 'sha256:' || encode(sha256(n::text::bytea), 'hex'), 'bytes', n, 'column', 'payload_bytes'
    ) as reference
) r
"""
PLAIN = "select count(*) from relaybox.outbox where payload is not null"


def main(messages: int) -> None:
    seconds: dict[str, list[float]] = {"references": [], "plain count": []}
    with one_store() as parameters, closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        cursor.execute(FILL, (messages,))
        connection.commit()
        connection.autocommit = True
        cursor.execute("vacuum (analyze) relaybox.outbox")
        connection.autocommit = False
        found = 0
        for _ in range(ROUNDS):
            began = time.monotonic()
            cursor.execute(PLAIN)
            seconds["plain count"].append(time.monotonic() - began)
            began = time.monotonic()
            found = sum(1 for _ in read_references(StoreSession(connection, "airline")))
            seconds["references"].append(time.monotonic() - began)
            connection.rollback()
    print(f"{messages:,} messages, {found:,} of them refer to a file, median of {ROUNDS} rounds")
    for name, measured in seconds.items():
        print(f"{name:<12} {median(measured):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else MESSAGES)
