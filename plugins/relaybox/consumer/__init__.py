"""Consumers in Python: `for message in consumer:`, with the handler's work and the acknowledgement in one transaction.

```python
with Consumer("analytics", "billing") as consumer:
    for message in consumer:
        consumer.connection.execute(text("insert into invoice ..."), {...})
```

What the handler writes through `consumer.connection` exists exactly once (G10), whatever is killed. What it does elsewhere happens at
least once: deduplicate by `message.message_id`, which never changes.
"""

from relaybox.consumer.loop import Consumer
from relaybox.consumer.messages import Message, UnreadLane

__all__ = ["Consumer", "Message", "UnreadLane"]
