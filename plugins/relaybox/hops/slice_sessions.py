"""Sessions that copy slices, kept from one slice to the next, and from one batch to the next.

To open two takes several times as long as to copy a few rows. And a new one faults in the pages of the server's shared memory that it
reads or writes: with 256 MB of them that costs both servers together as much as copying 10,000 messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.errors import StoreUnreachable

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession


class SliceSessions:
    """Lends sessions to slices that are copied side by side; keeps at most `keep` idle ones of each store. Any thread may call it.

    A session is lent under the name of its slice, as a new one: newer attempts find it by this name and end it.
    A session of a slice that failed is never lent again.
    """

    def __init__(self, *, keep: int = 0) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._idle: dict[str, list[StoreSession]] = {}

    @contextmanager
    def lend(self, service: str, *, name: str, activity: str, open_session: Callable[[], StoreSession]) -> Iterator[StoreSession]:
        """A session for one slice, outside any transaction.

        Args:
            service: of libpq.
            name: of the session, as the server's views show it.
            activity: for its errors.
            open_session: opens a new session of this name.
        """
        kept = self._take(service, name)
        session = kept.doing(activity) if kept else open_session()
        try:
            yield session
        except BaseException:
            session.close()
            raise
        self._keep_or_close(service, session)

    @contextmanager
    def keeping(self, count: int) -> Iterator[None]:
        """Within the block it keeps at least so many idle sessions of each store; afterwards it closes those that are too many again."""
        with self._lock:
            before, self._keep = self._keep, max(self._keep, count)
        try:
            yield
        finally:
            self._keep_only(before)

    def close(self) -> None:
        """Closes the idle sessions, and keeps none from now on."""
        self._keep_only(0)

    def _keep_only(self, count: int) -> None:
        with self._lock:
            self._keep = count
            closed = [session for sessions in self._idle.values() for session in sessions[count:]]
            self._idle = {service: sessions[:count] for service, sessions in self._idle.items()}
        for session in closed:
            session.close()

    def _take(self, service: str, name: str) -> StoreSession | None:
        with self._lock:
            sessions = self._idle.get(service)
            session = sessions.pop() if sessions else None
        if session is None:
            return None
        try:
            with session.autocommitting():  # a rollback would bring the old name back
                session.value("select pg_catalog.set_config('application_name', %s, false)", name)
        except StoreUnreachable:  # it was ended while nobody used it: a new session tells what is wrong, if anything is
            session.close()
            return None
        return session

    def _keep_or_close(self, service: str, session: StoreSession) -> None:
        if not (self._keep and _ends_transaction(session) and self._keeps(service, session)):
            session.close()

    def _keeps(self, service: str, session: StoreSession) -> bool:
        with self._lock:
            idle = self._idle.setdefault(service, [])
            if len(idle) < self._keep:
                idle.append(session)
                return True
            return False


def _ends_transaction(session: StoreSession) -> bool:
    """The source's has only read. A source that goes away now spoils nothing: the slice has its receipt."""
    try:
        session.rollback()
    except StoreUnreachable:
        return False
    return True
