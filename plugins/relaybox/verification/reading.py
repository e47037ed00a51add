"""Several stores read side by side, and slices read again as digests or row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar
from uuid import UUID

from relaybox.stores.opening import open_store
from relaybox.stores.sessions.answer_limits import cut_session
from relaybox.verification.defects import Row

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession

Answer = TypeVar("Answer")


class Sessions:
    """One session and one thread per store: questions to a store are answered in order, stores work side by side.

    Leaving the context with an error, Ctrl-C included, ends what still runs.
    """

    def __init__(self, stores: Collection[Store], *, application_name: str) -> None:
        self._stores, self._application_name = tuple(dict.fromkeys(stores)), application_name  # a local hop names its store twice
        self._threads = {store.name: ThreadPoolExecutor(1, thread_name_prefix=f"relaybox-{store.name}") for store in self._stores}
        self._sessions: dict[str, StoreSession] = {}

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

    def ask(self, store: Store, doing: str, question: Callable[[StoreSession], Answer]) -> Future[Answer]:
        """Has a question answered in a short transaction of its own.

        Args:
            store: whom to ask.
            doing: for the message of an error: `store hub: while <doing>: ...`.
            question: gets the store's session; runs in the store's thread.
        """
        return self._threads[store.name].submit(self._answer, store, doing, question)

    def _open(self, store: Store) -> None:
        self._sessions[store.name] = open_store(store, application_name=self._application_name)

    def _answer(self, store: Store, doing: str, question: Callable[[StoreSession], Answer]) -> Answer:
        session = self._sessions[store.name].doing(doing)
        answer = question(session)
        session.rollback()
        return answer

    def _close(self, *, cancel: bool) -> None:
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=cancel)
        if cancel:
            for session in list(self._sessions.values()):
                cut_session(session.connection)  # a cancel request waits without end for a server that is frozen
        for threads in self._threads.values():
            threads.shutdown(wait=True)
        for session in self._sessions.values():
            session.close()


@dataclass(frozen=True)
class SliceRead:
    """The arguments of relaybox_internal.slice_content: a slice of an outbox batch, or of the log `reads_log`, up to a position."""

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
        """Positions of a log, as they stand there; with `shift` those that are this many positions further on."""
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
    select row_count, digest from relaybox_internal.slice_digest(
        %s::integer, %s::pg_snapshot, %s::pg_snapshot, %s::text[], %s::bigint, %s::bigint, %s::bigint, %s::bigint
    )
"""
_ROWS = """
    select log_position, message_id, sender, message_hash from relaybox_internal.slice_content(
        %s::integer, %s::pg_snapshot, %s::pg_snapshot, %s::text[], %s::bigint, %s::bigint, %s::bigint, %s::bigint
    )
"""


def read_digest(read: SliceRead) -> Callable[[StoreSession], Digest]:
    """The question for a slice's digest."""
    return lambda session: session.row(Digest, _DIGEST, *read.arguments())


def read_rows(read: SliceRead) -> Callable[[StoreSession], list[Row]]:
    """The question for a slice's rows: position, identity and content hash, no payload."""
    return lambda session: fetch_rows(session, _ROWS, *read.arguments())


class _RowOfText(NamedTuple):
    """A Row as a store gives it."""

    log_position: int
    message_id: str
    sender: str
    message_hash: str


def fetch_rows(session: StoreSession, query: str, *arguments: object) -> list[Row]:
    """The rows of a query for position, message_id, sender and message_hash."""
    found = session.rows(_RowOfText, query, *arguments)
    return [Row(row.log_position, UUID(row.message_id), row.sender, row.message_hash) for row in found]
