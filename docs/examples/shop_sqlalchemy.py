"""An application with SQLAlchemy's ORM: `send ORDER` writes an order and its message, `consume` makes an invoice of each.

pip install 'relaybox[sqlalchemy,psycopg2]' pydantic; SHOP_URL and BILLING_URL say where the two stores are.
"""

import os
import sys

from pydantic import BaseModel
from sqlalchemy import Connection, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from relaybox.consumer import Consumer, Message
from relaybox.outbox import put


class Base(DeclarativeBase):
    """The tables of the application. The outbox needs no model."""


class Order(Base):
    """In the database of the shop."""

    __tablename__ = "shop_order"
    id: Mapped[int] = mapped_column(primary_key=True)


class Invoice(Base):
    """In the database of billing."""

    __tablename__ = "invoice"
    order_id: Mapped[int] = mapped_column(primary_key=True)


class OrderPlaced(BaseModel):
    """The payload, as the handler gets it."""

    order: int


def send(order: int) -> None:
    """Order and message are one transaction."""
    with Session(create_engine(os.environ["SHOP_URL"])) as session, session.begin():
        session.add(Order(id=order))
        put(session, "orders", "shop", OrderPlaced(order=order).model_dump_json())


def make_invoice(connection: Connection, message: Message) -> None:
    """Invoice and acknowledgement are one transaction: the session joins the consumer's, and never commits it."""
    with Session(connection, join_transaction_mode="create_savepoint") as session, session.begin():
        session.add(Invoice(order_id=message.body.order))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(int(sys.argv[2]))
    else:
        engine = create_engine(os.environ["BILLING_URL"])
        with Consumer(engine, "invoices", payload_type=OrderPlaced, until_empty=sys.argv[2:] == ["--until-empty"]) as consumer:
            consumer.run(make_invoice)  # until SIGTERM
