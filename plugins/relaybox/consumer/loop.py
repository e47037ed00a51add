"""The consumer of a thread: drives the decisions of relaybox.consumer.core, and ends with SIGTERM after its message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from relaybox import errors
from relaybox.clients.reopening import ReopeningSession
from relaybox.clients.steps import drive, make_call
from relaybox.consumer.core import ConsumerCore, refusal_reason
from relaybox.consumer.handlers import require_finished, require_plain_handler
from relaybox.consumer.messages import Message
from relaybox.consumer.settings import SETTINGS_OF_A_TRANSACTION
from relaybox.consumer.stop_signals import stopped_by_signals
from relaybox.consumer.stopping import StopEvent

if TYPE_CHECKING:
    from sqlalchemy import Engine


class Consumer(ConsumerCore):
    """A worker of one subscription. Iterating gives its messages and acknowledges each when the next one is asked for.

    An exception in the loop's body refuses the message (it comes again, after nack_limit times it is a dead letter) and goes on to the
    caller; `run` goes on with the next message instead. `break` leaves the message unacknowledged; `stop` ends the loop after it.
    Work that fails only at COMMIT, or a failed statement that the body ignored, refuses the message too.
    A session that broke refuses no message. It is opened anew, three times with growing pauses, and what was not committed comes again.

    Args:
        store: a libpq service name; an engine of SQLAlchemy; a callable that opens a connection of psycopg 3; or a connection of Django
            (django.db.connections["default"]). Its sessions need the role relaybox_consumer.
        subscription: its name; it must exist in the store.
        max_count: messages fetched at once.
        commit_every: messages per transaction. With more than one, a failure takes back the work on those before it too; it comes again.
        lane: consume this lane only; None: any that is free.
        worker: a name that is this worker's alone; by default one is made.
        poll_seconds: how long to rest when nothing is there and the session does not listen.
        listen: rest until the store notifies the session, and at most ten seconds or `poll_seconds`, if that is more. Sessions behind a
            pooler do not listen: they rest for `poll_seconds`.
        until_empty: end instead of resting. What other workers have leased is not waited for: `unread` says then what it is.
        retries: how often a broken session is opened anew before the error is raised.
        backoff_seconds: pause before the first of them; each further one is twice as long.
        payload_type: a model of pydantic, or another type that it validates: `message.body` is the payload as this type. A payload that is
            not of the type is refused before the handler sees it, and becomes a dead letter as every refused message.

    Attributes:
        unread: the lanes that still had stream positions when the loop ended with `until_empty`.
        acknowledged_count: messages of which the work was committed.
        refused_count: refusals, several of one message too.
        dead_letter_count: those of them that made a dead letter.
    """

    def __init__(
        self,
        store: str | Engine | Callable[[], Any] | Any,
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
    ) -> None:
        client, name = _open_client(store, subscription)
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

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Refuses the current message if the body failed on it, gives the lane back, closes the session.

        What ends the body and is no Exception (SystemExit, Airflow's timeout of a task) counts as a crash of the current message: the
        lane is not given back, since that would take the fetch out of the count. Its lease ends.
        """
        drive(self._leave(error))

    def __iter__(self) -> Iterator[Message]:
        return self._messages(goes_on=False)

    def _messages(self, *, goes_on: bool) -> Iterator[Message]:
        with stopped_by_signals(self.stop):
            steps = self._iterate(goes_on=goes_on)
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Message):
                        yield step
                        step = next(steps)
                    else:
                        step = make_call(steps, step)
            except StopIteration:
                return
            finally:
                steps.close()

    def run(self, handle: Callable[[Any, Message], None]) -> None:
        """Calls the handler for every message until `stop`; if the handler raises, its message is refused and the loop goes on.

        Raises:
            StoreUnreachable: the session broke, and could not be opened anew after all retries.
            HandlerRefused: the handler is async or a generator, or returned such work. The message is not refused: it comes again.
        """
        require_plain_handler(handle)
        call = cast("Callable[[Any, Message], object]", handle)
        for message in self._messages(goes_on=True):
            try:
                answer = call(self.connection, message)
            except errors.Transient as error:
                drive(self._interrupt(message, error))
            except Exception as error:  # noqa: BLE001  # whatever it is, it is the message's reason
                self.refuse(refusal_reason(error))
            else:
                if answer is not None:
                    self._require_finished(call, answer, message)

    def _require_finished(self, handle: Callable[[Any, Message], object], answer: object, message: Message) -> None:
        """Ends the worker without a word about the message if the handler's work has yet to run: the program is at fault."""
        try:
            require_finished(handle, answer, f"subscription {self.subscription}, stream position {message.stream_position}")
        except errors.HandlerRefused:
            drive(self._abandon(message))
            raise

    def stop(self, *_: object) -> None:
        """Ends the loop after the current message, with all that was handled acknowledged. SIGTERM and SIGINT call it."""
        self._stop.set()


def _open_client(store: Any, subscription: str) -> tuple[Any, str]:
    """A session of relaybox.clients for what the application gave, and the store's name in messages.

    Raises:
        TypeError: it is nothing that sessions can be opened of.
    """
    if isinstance(store, str):
        from relaybox.clients.sqlalchemy import SqlalchemySession
        from relaybox.consumer.services import open_engine

        return SqlalchemySession(open_engine(store, subscription), pooled_settings=SETTINGS_OF_A_TRANSACTION), store
    if hasattr(store, "dialect") and hasattr(store, "sync_engine"):
        raise TypeError("relaybox.consumer.Consumer got an AsyncEngine. Use relaybox.aio.Consumer.")
    if hasattr(store, "dialect"):
        from relaybox.clients.sqlalchemy import SqlalchemySession

        return SqlalchemySession(store, pooled_settings=SETTINGS_OF_A_TRANSACTION), str(store.url.database)
    if "django" in sys.modules and hasattr(store, "in_atomic_block"):
        from relaybox.clients.django import DjangoSession

        return DjangoSession(store), str(store.settings_dict["NAME"])
    if callable(store):
        return ReopeningSession(store), "of the consumer"
    raise TypeError(
        f"relaybox.consumer.Consumer got a {type(store).__name__}. Give the name of a libpq service, an engine of SQLAlchemy, "
        "a callable that opens a connection of psycopg 3, or a connection of Django."
    )
