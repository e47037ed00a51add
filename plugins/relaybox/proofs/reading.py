"""Several stores read side by side, and slices read again as digests or row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from uuid import UUID

import psycopg2

from relaybox.proofs.defects import Row
from relaybox.stores.connections import store_errors
from relaybox.stores.schema import open_store

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Store

Answer = TypeVar("Answer")


class Sessions:
    """One session and one thread per store: questions to a store are answered in order, stores work side by side.

    Leaving the context with an error, Ctrl-C included, cancels what still runs.
    """

    def __init__(self, stores: Collection[Store], *, application_name: str) -> None:
        self._stores, self._application_name = tuple(dict.fromkeys(stores)), application_name  # a local hop names its store twice
        self._threads = {store.name: ThreadPoolExecutor(1, thread_name_prefix=f"relaybox-{store.name}") for store in self._stores}
        self._connections: dict[str, Connection] = {}

    def __enter__(self) -> Self:
        try:
            for opening in [self._threads[store.name].submit(self._open, store) for store in self._stores]:
                opening.result()
        except BaseException:
            self._close(cancel=True)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close(cancel=kind is not None)

    def ask(self, store: Store, doing: str, question: Callable[[Any], Answer]) -> Future[Answer]:
        """Has a question answered in a short transaction of its own.

        Args:
            store: whom to ask.
            doing: for the message of an error: `store hub: while <doing>: ...`.
            question: gets the store's connection; runs in the store's thread.
        """
        return self._threads[store.name].submit(self._answer, store, doing, question)

    def _open(self, store: Store) -> None:
        self._connections[store.name] = open_store(store, application_name=self._application_name)

    def _answer(self, store: Store, doing: str, question: Callable[[Any], Answer]) -> Answer:
        connection = self._connections[store.name]
        with store_errors(store.name, doing):
            answer = question(connection)
            connection.rollback()
        return answer

    def _close(self, *, cancel: bool) -> None:
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=cancel)
        if cancel:
            for connection in list(self._connections.values()):
                with suppress(psycopg2.Error):  # a broken session runs nothing that could be cancelled
                    connection.cancel()
        for threads in self._threads.values():
            threads.shutdown(wait=True)
        for connection in self._connections.values():
            connection.close()


@dataclass(frozen=True)
class SliceRead:
    """The arguments of relaybox.slice_content: a slice of an outbox batch, or of the log `reads_log`, up to a position."""

    reads_log: int | None
    lower: str | None
    upper: str | None
    topics: tuple[str, ...] | None
    first_read: int
    last_read: int
    first_position: int
    through_position: int

    @classmethod
    def of_log(cls, log_id: int, first_position: int, last_position: int, *, shift: int = 0) -> SliceRead:
        """Positions of a log, as they stand there; with `shift` those that stand so many positions further on."""
        return cls(log_id, None, None, None, first_position + shift, last_position + shift, first_position, last_position)

    @property
    def row_count(self) -> int:
        """Rows as they were planned."""
        return self.through_position - self.first_position + 1

    def arguments(self) -> tuple[object, ...]:
        return tuple(list(value) if isinstance(value, tuple) else value for value in astuple(self))


class StoreRead(NamedTuple):
    """A slice as one store has it."""

    store: Store
    read: SliceRead


Pair = tuple[StoreRead, StoreRead]
"""The same messages in two stores: as they should be, and as they were found."""


class Digest(NamedTuple):
    """Count and content of a slice; equal in two stores that hold the same messages at the same positions."""

    row_count: int
    digest: str | None


_DIGEST = """
    select row_count, digest from relaybox.slice_digest(
        %s::integer, %s::pg_snapshot, %s::pg_snapshot, %s::text[], %s::bigint, %s::bigint, %s::bigint, %s::bigint
    )
"""
_ROWS = """
    select position, message_id, sender, message_hash from relaybox.slice_content(
        %s::integer, %s::pg_snapshot, %s::pg_snapshot, %s::text[], %s::bigint, %s::bigint, %s::bigint, %s::bigint
    )
"""


def read_digest(read: SliceRead) -> Callable[[Any], Digest]:
    """The question for a slice's digest."""

    def ask(connection: Any) -> Digest:
        with connection.cursor() as cursor:
            cursor.execute(_DIGEST, read.arguments())
            return Digest(*cursor.fetchone())

    return ask


def read_rows(read: SliceRead) -> Callable[[Any], list[Row]]:
    """The question for a slice's rows: position, identity and content hash, no payload."""

    def ask(connection: Any) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(_ROWS, read.arguments())
            return [Row(position, UUID(message_id), sender, hash_) for position, message_id, sender, hash_ in cursor.fetchall()]

    return ask
