"""An application with an outbox as Debezium's outbox event router reads it. It knows nothing of Relaybox.

Each order is one transaction: the order, and an event in the table `outboxevent`, which is deleted at once as Debezium's guide
recommends. `python debezium_outbox.py make` makes the tables, `python debezium_outbox.py place 3` places three orders, `--keep` leaves
the events in the table.
"""

from __future__ import annotations

import json
import sys
from uuid import UUID, uuid4

from sqlalchemy import String, create_engine
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

ENGINE = create_engine("postgresql+psycopg2://?service=shop")


class Base(DeclarativeBase):
    """The tables of the application."""


class Order(Base):
    """An order; each customer may place many."""

    __tablename__ = "order"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


class OutboxEvent(Base):
    """What the outbox event router reads, with its column names."""

    __tablename__ = "outboxevent"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    aggregatetype: Mapped[str] = mapped_column(String(255))
    aggregateid: Mapped[str] = mapped_column(String(255))
    type: Mapped[str] = mapped_column(String(255))
    payload: Mapped[dict[str, object]] = mapped_column(JSONB)


def place_order(session: Session, customer: str, *, keeps_event: bool) -> int:
    """Writes an order and its event in the session's transaction."""
    order = Order(customer=customer)
    session.add(order)
    session.flush()
    event = OutboxEvent(
        aggregatetype="ShopOrders", aggregateid=customer, type="OrderPlaced", payload={"order": order.id, "customer": customer}
    )
    session.add(event)
    session.flush()
    if not keeps_event:
        session.delete(event)
    return order.id


def main(arguments: list[str]) -> None:
    """The command line."""
    if arguments == ["make"]:
        Base.metadata.create_all(ENGINE)
        return
    for number in range(int(arguments[1])):
        with Session(ENGINE) as session, session.begin():
            order = place_order(session, f"customer-{number % 2}", keeps_event="--keep" in arguments)
        sys.stdout.write(json.dumps({"placed": order}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
