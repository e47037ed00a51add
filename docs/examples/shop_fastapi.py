"""An application with FastAPI, in one event loop: POST /orders/ORDER writes an order and its message; a task makes invoices.

pip install 'relaybox[sqlalchemy,asyncpg]' fastapi uvicorn; SHOP_URL and BILLING_URL say where the two stores are.

uvicorn shop_fastapi:app
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine

from relaybox.aio import Consumer, Message, put

shop = create_async_engine(os.environ["SHOP_URL"].replace("postgresql:", "postgresql+asyncpg:"))
billing = create_async_engine(os.environ["BILLING_URL"].replace("postgresql:", "postgresql+asyncpg:"))


class OrderPlaced(BaseModel):
    """The payload, as the handler gets it."""

    order: int


async def make_invoice(connection: AsyncConnection, message: Message) -> None:
    """Invoice and acknowledgement are one transaction; an error refuses the message."""
    await connection.execute(text("insert into invoice (order_id) values (:order)"), {"order": message.body.order})


async def consume() -> None:
    """A worker in the server's event loop. For many messages, run a program of its own."""
    async with Consumer(billing, "invoices", payload_type=OrderPlaced) as consumer:
        await consumer.run(make_invoice)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """The server ends the task: the work on its message is rolled back, and the lane is free at once."""
    worker = asyncio.create_task(consume())
    yield
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def place_order(order: int) -> dict[str, str]:
    """Order and message are one transaction."""
    async with AsyncSession(shop) as session, session.begin():
        await session.execute(text("insert into shop_order (id) values (:order)"), {"order": order})
        message_id = await put(session, "orders", "shop", OrderPlaced(order=order).model_dump_json())
    return {"message_id": str(message_id)}
