"""Questions to stores that end at a deadline, whatever the store does.

A server's own timeouts don't help against a server that is frozen, and a client library waits for it without end. Here the thread that asks
waits for so long, then cuts the socket: the thread that libpq holds gets its error and ends by itself. It is never joined.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from relaybox import errors

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Store

SHORTEST_CONNECT_SECONDS = 2
"""libpq takes no shorter `connect_timeout`."""

CONNECTING_AT_ONCE = 4
"""Per service and process.

What hangs before there is a socket, as in a name server, can't be cut: at most this many threads may hang there.
"""

CUT_GRACE_SECONDS = 0.5
"""So long a thread whose session was cut has to end by itself."""

_Answer = TypeVar("_Answer")


@dataclass
class Inquiry:
    """Sessions to stores, opened by the threads that work for it, that end with it.

    Attributes:
        parameters: of libpq, by service; a service that is missing can't be asked.
        seconds: how long each store may take for its whole answer, connecting included.
        silent: the errors of services that refused a connection or did not answer in time; none of them is asked again.
    """

    parameters: Mapping[str, Mapping[str, str]]
    seconds: float
    silent: dict[str, errors.RelayboxError] = field(default_factory=dict)
    _deadline: float = field(init=False)
    _links: list[socket.socket] = field(default_factory=list, init=False)
    _ended: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.seconds

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def of_one_store(self, *, times: int = 1) -> Inquiry:
        """A part of it with a deadline of its own, counted from now: `times` its seconds, for who waits for others in between."""
        part = Inquiry(self.parameters, self.seconds, self.silent)
        part._deadline = time.monotonic() + times * self.seconds
        return part

    @contextmanager
    def connecting(self, service: str) -> Iterator[Mapping[str, Any]]:
        """What to hand to libpq, while the block connects.

        Raises:
            StoreUnreachable: the store was silent before, its time is over, or too many still try to connect.
            ConfigurationError: the service has no parameters.
        """
        if (error := self.silent.get(service)) is not None:
            raise error
        if service not in self.parameters:
            raise errors.ConfigurationError(
                f"store {service}: it has no connection in Airflow, or a wrong one.", next_step="Correct the store's connection."
            )
        if self._ended or not self.seconds_left:
            raise self.late(service)
        slots = _slots(service)
        if not slots.acquire(blocking=False):
            raise errors.StoreUnreachable(f"store {service}: {CONNECTING_AT_ONCE} earlier attempts to connect have not finished.")
        try:
            yield {
                **self.parameters[service],
                "connect_timeout": max(SHORTEST_CONNECT_SECONDS, int(min(self.seconds, self.seconds_left))),
            }
        finally:
            slots.release()

    def watch(self, service: str, connection: Connection) -> None:
        """Takes a new session over: it is cut when the time is over.

        The descriptor is a copy made here, in the thread that opened the session: its number can't come to mean another socket.
        """
        link = socket.socket(fileno=os.dup(connection.fileno()))
        with self._lock:
            if not self._ended:
                self._links.append(link)
                return
        link.close()
        connection.close()
        raise self.late(service)

    def answer(self, question: Callable[[], _Answer]) -> _Answer:
        """Calls `question` in this thread; its sessions end with it, or at the deadline."""
        timer = threading.Timer(self.seconds_left, self.end)
        timer.daemon = True
        timer.start()
        before = _inquiry.set(self)
        try:
            return question()
        finally:
            _inquiry.reset(before)
            timer.cancel()
            self.end()

    def end(self) -> None:
        """Cuts what is still open. Threads that wait for an answer get an error; this call does not wait for them."""
        with self._lock:
            self._ended = True
            links, self._links = self._links, []
        for link in links:
            with suppress(OSError):  # its server or its own thread has ended the session before
                link.shutdown(socket.SHUT_RDWR)
            link.close()

    def late(self, service: str) -> errors.StoreUnreachable:
        return errors.StoreUnreachable(
            f"store {service}: no answer within {self.seconds:g} s.", next_step="See whether its server runs, or is overloaded."
        )


_inquiry: ContextVar[Inquiry | None] = ContextVar("relaybox_inquiry", default=None)
_connecting: dict[str, threading.BoundedSemaphore] = {}
_connecting_lock = threading.Lock()


def current_inquiry() -> Inquiry | None:
    """The one that this thread works for; None: it may take its time, and libpq finds the service by itself."""
    return _inquiry.get()


def start_asking(inquiry: Inquiry | None, ask: Callable[[], _Answer], *, name: str) -> Future[_Answer]:
    """Calls `ask` in a thread of its own that works for this inquiry, or for none; the process may end without it."""
    answer: Future[_Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(ask() if inquiry is None else inquiry.answer(ask))
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits for the answer
            answer.set_exception(error)

    threading.Thread(target=run, name=f"relaybox-{name}", daemon=True).start()
    return answer


def ask_each(
    stores: Iterable[Store], ask: Callable[[Store], _Answer], *, otherwise: Callable[[errors.RelayboxError], _Answer]
) -> dict[Store, _Answer]:
    """Asks all stores side by side: waits for each, or, in an inquiry, for as long as that gives a store.

    Args:
        stores: each is asked once.
        ask: called in a thread of its own; catches what a store's answer may be.
        otherwise: what stands for the answer of a store that was late; later questions of the same inquiry don't ask it.
    """
    asked = list(stores)
    inquiry = current_inquiry()
    if inquiry is None:
        with ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="relaybox-ask") as pool:
            return dict(zip(asked, pool.map(ask, asked), strict=True))
    parts = {store: inquiry.of_one_store() for store in asked if store.service not in inquiry.silent}
    answers = {store: start_asking(part, partial(ask, store), name=f"ask-{store.name}") for store, part in parts.items()}
    wait(answers.values(), timeout=inquiry.seconds)
    late = [store for store, answer in answers.items() if not answer.done()]
    wait([answers[store] for store in late], timeout=CUT_GRACE_SECONDS if late else 0)  # their sessions are cut now
    for store in late:
        inquiry.silent[store.service] = parts[store].late(store.service)
    return {
        store: answers[store].result() if store in answers and answers[store].done() else otherwise(inquiry.silent[store.service])
        for store in asked
    }


def _slots(service: str) -> threading.BoundedSemaphore:
    with _connecting_lock:
        return _connecting.setdefault(service, threading.BoundedSemaphore(CONNECTING_AT_ONCE))
