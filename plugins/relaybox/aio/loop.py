"""The consumer of an event loop: drives the decisions of relaybox.consumer.core."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from relaybox import errors
from relaybox.aio.stopping import StopEvent
from relaybox.clients.reopening import AsyncReopeningSession
from relaybox.clients.steps import Steps, StepsEnded, await_call, drive_async
from relaybox.consumer.core import ConsumerCore, refusal_reason
from relaybox.consumer.messages import Message

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

RELEASE_SECONDS = 5.0
"""How long a cancelled consumer tries to give its lane back; afterwards the lease ends by itself."""


class Consumer(ConsumerCore):
    """A worker of one subscription, as relaybox.consumer.Consumer: same messages, same refusals, same dead letters.

    If the task is cancelled, the work on the current message is rolled back, the message is not refused, and the lane is given back, so
    that another worker has the message at once. An asyncio.timeout that ends is an exception of the handler, and refuses the message.

    Args:
        store: an AsyncEngine of SQLAlchemy, or an async callable that opens a connection of asyncpg or psycopg:
            `lambda: asyncpg.connect(dsn)`. Its sessions need the role relaybox_consumer.
        subscription: its name; it must exist in the store.
        max_count: messages fetched at once.
        commit_every: messages per transaction. With more than one, a failure takes back the work on those before it too; it comes again.
        lane: consume this lane only; None: any that is free.
        worker: a name that is this worker's alone; by default one is made.
        poll_seconds, listen: as of relaybox.consumer.Consumer.
        until_empty: end instead of resting. What other workers have leased is not waited for: `unread` says then what it is.
        retries: how often a broken session is opened anew before the error is raised.
        backoff_seconds: pause before the first of them; each further one is twice as long.
        payload_type: as of relaybox.consumer.Consumer.
        handles_signals: SIGTERM and SIGINT end the loop after its message. For a program of its own: a server has handlers already.

    Attributes:
        unread, acknowledged_count, refused_count, dead_letter_count: as of relaybox.consumer.Consumer.
    """

    def __init__(
        self,
        store: AsyncEngine | Callable[[], Awaitable[Any]] | Any,
        subscription: str,
        *,
        max_count: int = 100,
        commit_every: int = 1,
        lane: int | None = None,
        worker: str | None = None,
        poll_seconds: float = 1.0,
        listen: bool = True,
        until_empty: bool = False,
        retries: int = 3,
        backoff_seconds: float = 1.0,
        payload_type: Any = None,
        handles_signals: bool = False,
    ) -> None:
        client, name = _open_client(store)
        super().__init__(
            client,
            name,
            subscription,
            max_count=max_count,
            commit_every=commit_every,
            lane=lane,
            worker=worker,
            poll_seconds=poll_seconds,
            listen=listen,
            until_empty=until_empty,
            retries=retries,
            backoff_seconds=backoff_seconds,
            payload_type=payload_type,
        )
        self._stop = StopEvent()
        self._handles_signals = handles_signals

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Refuses the current message if the body failed on it, gives the lane back, closes the session."""
        if isinstance(error, asyncio.CancelledError):
            await self._give_back()
        else:
            await drive_async(self._leave(error))

    async def _give_back(self) -> None:
        """After a cancellation: in a new session, since the cut statement may have left this one anywhere. Never waits for long."""
        # a commit that was cut off leaves the lane to one of two fetches: the store gives it back to the one that has it
        current, self._current = self._current or self._handed_out, None
        await self._in_time(self._session.close())
        may_have_it = {fetched.token: fetched for fetched in (self._newest_fetched, current) if fetched is not None}
        for fetched in may_have_it.values():
            await self._in_time(self._release(fetched))
        await self._in_time(self._session.close())

    async def _in_time(self, steps: Steps[None]) -> None:
        """Gives up after RELEASE_SECONDS, and where the store can't be reached: the lease ends by itself."""
        with suppress(TimeoutError, errors.RelayboxError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await drive_async(steps)

    def __aiter__(self) -> AsyncIterator[Message]:
        return _Messages(self._iterate(goes_on=False))

    async def run(self, handle: Callable[[Any, Message], Awaitable[None]]) -> None:
        """Awaits the handler for every message until `stop`; if the handler raises, its message is refused and the loop goes on.

        Raises:
            StoreUnreachable: the session broke, and could not be opened anew after all retries.
            HandlerRefused: the handler returned nothing to await. The message is not refused: it comes again.
        """
        with self._graceful():
            async for message in _Messages(self._iterate(goes_on=True)):
                try:
                    answer: object = handle(self.connection, message)
                    if inspect.isawaitable(answer):
                        await answer
                except errors.Transient as error:
                    await drive_async(self._interrupt(message, error))
                except Exception as error:  # noqa: BLE001  # whatever it is, it is the message's reason
                    self._has_timed_out = isinstance(error, TimeoutError)
                    self.refuse(refusal_reason(error))
                else:
                    if not inspect.isawaitable(answer):
                        await drive_async(self._abandon(message))
                        raise errors.HandlerRefused(
                            f"subscription {self.subscription}, stream position {message.stream_position}: the handler "
                            f"{getattr(handle, '__qualname__', repr(handle))} returned nothing to await. Nothing is acknowledged.",
                            next_step="Write it as async def, or use relaybox.consumer.Consumer.",
                        )

    def stop(self, *_: object) -> None:
        """Ends the loop after the current message, with all that was handled acknowledged. Call it in the event loop."""
        self._stop.set()

    @contextmanager
    def _graceful(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop the loop after its message, where it was asked for."""
        if not self._handles_signals:
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


class _Messages:
    """No async generator: what a `break` leaves of one ends at some later time."""

    def __init__(self, steps: Steps[None]) -> None:
        self._steps = steps

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        step = next(self._steps, None)
        try:
            while step is not None and not isinstance(step, Message):
                step = await await_call(self._steps, step)
        except StepsEnded:
            step = None
        if step is None:
            raise StopAsyncIteration
        return step


def _open_client(store: Any) -> tuple[Any, str]:
    """A session of relaybox.clients for what the application gave, and the store's name in messages.

    Raises:
        TypeError: it is nothing that sessions of an event loop can be opened of.
    """
    if hasattr(store, "sync_engine"):
        from relaybox.clients.sqlalchemy import AsyncSqlalchemySession

        return AsyncSqlalchemySession(store), str(store.url.database)
    if callable(store):
        return AsyncReopeningSession(store), "of the consumer"
    raise TypeError(
        f"relaybox.aio.Consumer got a {type(store).__name__}. Give an AsyncEngine of SQLAlchemy, or an async callable that opens a "
        "connection of asyncpg or an AsyncConnection of psycopg."
    )
