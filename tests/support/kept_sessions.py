"""Sessions that one statement of a test leaves to the next: to open one costs more than most statements do.

A statement finds what it would find in a new session: no transaction, no settings, no temporary tables. Where that can't be known the
session is closed.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from psycopg2.sql import Composable

_LEAVES_SOMETHING = re.compile(r"\b(set|set_config|reset|temp|temporary|listen|prepare|declare|load)\b|advisory", re.IGNORECASE)
"""Statements after which a session may not be as it was."""

_CHANGES_LATER_SESSIONS = re.compile(r"\balter\s+(role|user|database|system)\b|pg_reload_conf", re.IGNORECASE)

_Key = tuple[str, str, str]
"""What the service file says now, since a test may have changed it; the service; the options."""

_idle: dict[_Key, list[Any]] = defaultdict(list)
_lock = threading.Lock()


@contextmanager
def kept_session(service: str, options: str, statement: str | Composable) -> Iterator[Any]:
    """A session of a libpq service, in autocommit, for one statement."""
    key = (Path(os.environ["PGSERVICEFILE"]).read_text(encoding="utf-8"), service, options)
    session = _take(key) or psycopg2.connect(service=service, options=options)
    session.autocommit = True
    try:
        yield session
    except BaseException:
        session.close()
        raise
    text = statement if isinstance(statement, str) else statement.as_string(session)
    if _CHANGES_LATER_SESSIONS.search(text):
        close_kept_sessions()
    if _LEAVES_SOMETHING.search(text) or session.info.transaction_status != TRANSACTION_STATUS_IDLE or session.notices:
        session.close()
        return
    with _lock:
        _idle[key].append(session)


def close_kept_sessions() -> None:
    """At the end of a test, and where its next statements have to open new ones."""
    with _lock:
        sessions = [session for kept in _idle.values() for session in kept]
        _idle.clear()
    for session in sessions:
        session.close()


def _take(key: _Key) -> Any | None:
    """One that is still open. An idle server says something only if it ends the session."""
    while True:
        with _lock:
            if not _idle[key]:
                return None
            session = _idle[key].pop()
        if not select.select([session], [], [], 0)[0]:
            return session
        session.close()
