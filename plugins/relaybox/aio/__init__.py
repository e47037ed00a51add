"""Sending and consuming in an event loop: the names of relaybox.outbox and relaybox.consumer, with `await`.

```python
async with connection.transaction():
    await put(connection, "orders", "shop", {"order": 7})

async with Consumer(engine, "billing") as consumer:
    async for message in consumer:
        await consumer.connection.execute(text("insert into invoice ..."), {...})
```
"""

from relaybox.aio.loop import Consumer
from relaybox.aio.sending import CausalSender, put, put_once
from relaybox.consumer.messages import Message, UnreadLane
from relaybox.outbox import Draft

__all__ = ["CausalSender", "Consumer", "Draft", "Message", "UnreadLane", "put", "put_once"]
