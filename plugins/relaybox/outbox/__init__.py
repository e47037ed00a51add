"""For producers in Python: one call that inserts a message in the caller's own transaction, and the clocks of causal senders.

An application needs nothing of this: an insert into relaybox.outbox says the same. Nothing here commits or rolls back. In an event loop
relaybox.aio has the same names.
"""

from relaybox.outbox.puts import Clock, Payload, put
from relaybox.outbox.repeatable_puts import Draft, put_message_id, put_once
from relaybox.outbox.sender_clocks import CausalSender

__all__ = ["CausalSender", "Clock", "Draft", "Payload", "put", "put_message_id", "put_once"]
