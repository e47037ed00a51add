"""A consumer as a program of its own, so that it can be killed: writes every message into a table, with the consumer's transaction.

Arguments: store, subscription, options as JSON. Prints a line per message.
"""

from __future__ import annotations

import json
import logging
import sys

from sqlalchemy import text

from relaybox.consuming import Consumer


def main(store: str, subscription: str, options: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with Consumer(store, subscription, **json.loads(options)) as consumer:
        for message in consumer:
            consumer.connection.execute(
                text("insert into public.effect (place, sender, payload, by) values (:place, :sender, :payload, :by)"),
                {"place": message.place, "sender": message.sender, "payload": message.payload, "by": consumer.worker},
            )
            print(message.place, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
