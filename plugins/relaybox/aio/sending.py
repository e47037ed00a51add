"""The calls of relaybox.outbox in an event loop: the same statements, in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from relaybox.clients.rows import one_row_async
from relaybox.message_times import MessageTime
from relaybox.outbox.puts import Clock, Payload, PutSteps, put_steps
from relaybox.outbox.repeatable_puts import Draft, put_once_steps
from relaybox.outbox.sender_clocks import SenderClock

Result = TypeVar("Result")


async def put(
    session: Any,
    topic: str,
    sender: str,
    payload: Payload,
    *,
    key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    message_id: UUID | None = None,
    index: int | None = None,
    epoch: int | None = None,
    clock: Clock | None = None,
    deliver_after: MessageTime | None = None,
    expires_at: MessageTime | None = None,
) -> UUID:
    """relaybox.outbox.put in the open transaction of an AsyncSession, an AsyncConnection, or a connection of asyncpg.

    Raises:
        ValueError: an epoch without an index; a time without a time zone, or also in the headers.
        TypeError: the session is of none of these kinds, or a time is neither a datetime nor a timedelta.
        the library's own error: what the outbox refuses. The constraint's name is the reason; the transaction is to be rolled back.
    """
    numbers: dict[str, Any] = {"index": index, "epoch": epoch, "clock": clock}
    times: dict[str, Any] = {"deliver_after": deliver_after, "expires_at": expires_at}
    steps = put_steps(topic, sender, payload, key=key, headers=headers, message_id=message_id, **numbers, **times)
    return await _run(session, steps)


async def put_once(session: Any, sender: str, put_key: str, drafts: Sequence[Draft], *, numbered: bool = False) -> bool:
    """relaybox.outbox.put_once; raises as it does."""
    return await _run(session, put_once_steps(sender, put_key, drafts, numbered=numbered))


class CausalSender(SenderClock):
    """relaybox.outbox.CausalSender. Not for several tasks at once."""

    async def put(
        self,
        session: Any,
        topic: str,
        payload: Payload,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: UUID | None = None,
        deliver_after: MessageTime | None = None,
        expires_at: MessageTime | None = None,
    ) -> UUID:
        """Sends a message that comes after everything delivered so far, numbered by relaybox.next_index().

        From here on other transactions of this sender wait until the caller's ends; if it is rolled back, the number is free again.
        """
        times: dict[str, Any] = {"deliver_after": deliver_after, "expires_at": expires_at}
        steps = self.put_steps(topic, payload, key=key, headers=headers, message_id=message_id, **times)
        return await _run(session, steps)


async def _run(session: Any, steps: PutSteps[Result]) -> Result:
    """Runs the statements of the steps in the session, and returns the steps' result."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await one_row_async(session, *asked))
    except StopIteration as ended:
        result: Result = ended.value
        return result
