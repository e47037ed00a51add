"""A consumer as a program of its own, so that it can be killed: writes every message into a table, with the consumer's transaction.

Arguments: store, subscription, options as JSON. Prints a line per message.
"""

from __future__ import annotations

import json
import logging
import sys

from sqlalchemy import text

from relaybox.consumer import Consumer


def main(store: str, subscription: str, options: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with Consumer(store, subscription, **json.loads(options)) as consumer:
        for message in consumer:
            consumer.connection.execute(
                text(
                    "insert into public.effect (stream_position, sender, payload, by) values (:stream_position, :sender, :payload, :by)"
                ),
                {
                    "stream_position": message.stream_position,
                    "sender": message.sender,
                    "payload": message.payload,
                    "by": consumer.worker,
                },
            )
            print(message.stream_position, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
