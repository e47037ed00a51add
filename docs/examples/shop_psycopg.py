"""An application with psycopg 3: `send ORDER` writes an order and its message, `consume` makes an invoice of each.

pip install 'relaybox[psycopg]'; SHOP_URL and BILLING_URL say where the two stores are.
"""

import os
import sys
from typing import Any

import psycopg

from relaybox.consumer import Consumer, Message
from relaybox.outbox import put


def send(order: int) -> None:
    """Order and message are one transaction."""
    with psycopg.connect(os.environ["SHOP_URL"]) as connection:
        connection.execute("insert into shop_order (id) values (%s)", (order,))
        put(connection, "orders", "shop", {"order": order})


def open_billing() -> psycopg.Connection[Any]:
    """A session for the consumer; it opens another one if this one breaks."""
    return psycopg.connect(os.environ["BILLING_URL"])


def make_invoice(connection: psycopg.Connection[Any], message: Message) -> None:
    """Invoice and acknowledgement are one transaction; an error refuses the message."""
    connection.execute("insert into invoice (order_id) select (cast(%s as jsonb) ->> 'order')::integer", (message.payload,))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(int(sys.argv[2]))
    else:
        with Consumer(open_billing, "invoices", until_empty=sys.argv[2:] == ["--until-empty"]) as consumer:
            consumer.run(make_invoice)  # until SIGTERM
