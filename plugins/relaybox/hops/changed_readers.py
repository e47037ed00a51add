"""The views and functions through which a hop finds messages must be as init made them: one that hides messages looks like an empty store.

A driver asks when it begins; the view of the outbox is looked at before each batch too (refuse_changed_view.sql).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.stores.schema.object_defects import find_altered, shorten
from relaybox.stores.schema.sql_files import sql_directory

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession

_FOLDERS = ("hops", "streams")
"""Of sql/functions: what reads, copies, publishes and delivers messages."""

_OTHERS = ("sent_rows", "known_topics", "xid_default", "refuse_changed_xid", "refuse_changed_view", "refuse_unlogged")
"""Views that these functions read, and what refuses to go on."""


def refuse_changed_readers(session: StoreSession) -> None:
    """Ends the session's transaction.

    Raises:
        OutboxChanged: a view or function through which hops find messages was changed by hand.
    """
    error = find_changed_readers(session, session.store)
    session.rollback()
    if error is not None:
        raise error


def find_changed_readers(session: StoreSession, store: str) -> errors.OutboxChanged | None:
    """The error that stops the hops of a store; None: all is as init made it. Changes nothing. In the session's transaction."""
    altered = find_altered(session, _readers())
    if not altered:
        return None
    return errors.OutboxChanged(
        f"store {store}: it may hide messages, because these are not as init made them: {shorten(altered)}. No hop moves its messages.",
        next_step=f"Run: relaybox init {store}",
    )


@functools.cache
def _readers() -> frozenset[str]:
    functions = sql_directory() / "functions"
    return frozenset((*_OTHERS, *(path.stem for folder in _FOLDERS for path in (functions / folder).glob("*.sql"))))
