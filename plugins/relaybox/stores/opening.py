"""Opens a store: a session to it whose schema is one that this code was written for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.stores.schema import migrations
from relaybox.stores.schema.namespaces import IS_STORE, refuse_foreign_schemas
from relaybox.stores.schema.stronger_logins import refuse_superuser
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.lock_holders import naming_lock_holders
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Store


def open_store(store: Store, *, application_name: str) -> StoreSession:
    """Connects to a store and checks that its schema is the one this code was written for.

    Raises:
        StoreNotInitialised: no schema, or an older one.
        SchemaTooNew: made by a newer Relaybox.
        StoreUnreachable, StoreUnusable: no connection.
    """
    session = connect_store(store, application_name=application_name)
    try:
        _require_version(session)
    except BaseException:
        session.close()
        raise
    return session


@contextmanager
def opened_store(store: Store, *, application_name: str) -> Iterator[StoreSession]:
    """A session as open_store() gives it, closed at the end of the block. Who holds a lock that it waited for in vain is named.

    Raises:
        as open_store(), and what the store's errors mean (stores.sessions.connections).
    """
    with closing(open_store(store, application_name=application_name)) as session, naming_lock_holders(session):
        yield session


_shared: ContextVar[Mapping[str, StoreSession] | None] = ContextVar("relaybox_shared_sessions", default=None)


@contextmanager
def one_session(store: Store, activity: str, *, application_name: str) -> Iterator[StoreSession]:
    """Within the block all that this thread asks of the store by store_session() is asked in this one session.

    Each statement is a transaction: nothing is held open while the thread waits for something else.

    Raises:
        as store_session().
    """
    with store_session(store, activity, application_name=application_name) as session:
        session.connection.autocommit = True
        token = _shared.set({**(_shared.get() or {}), store.service: session})
        try:
            yield session
        finally:
            _shared.reset(token)


@contextmanager
def store_session(store: Store, activity: str, *, application_name: str) -> Iterator[StoreSession]:
    """A session that is closed at the end of the block; what is not committed by then is rolled back. See one_session().

    Args:
        store: the store.
        activity: for its errors, which are told as `store hub: while <activity>: ...`.
        application_name: as the server's views show the session.

    Raises:
        as open_store(), and what the store's errors mean (stores.sessions.connections).
    """
    shared = (_shared.get() or {}).get(store.service)
    if shared is not None:
        yield shared.doing(activity)
        return
    with opened_store(store, application_name=application_name) as session:
        yield session.doing(activity)


def connect_store(store: Store, *, application_name: str) -> StoreSession:
    """A session of a store of any version, or of a database that is none yet.

    Raises:
        StoreUnreachable, StoreUnusable: no connection.
    """
    return StoreSession(connect(store.service, application_name=application_name), store.name)


class _Version(NamedTuple):
    """Of a store's schema: its newest migration, and the newest one beside which older code may not run."""

    newest: int
    newest_post: int


def _require_version(session: StoreSession) -> None:
    store, found, known = session.store, _applied_version(session), migrations.newest_migration().number
    if found.newest_post <= known <= found.newest:
        return  # a newer version's init came first: all that it added is `pre`
    if not found.newest:
        refuse_foreign_schemas(session.doing("reading the schema version"))
        session.rollback()
    if found.newest > known:
        raise errors.SchemaTooNew(
            f"store {store}: its schema is version {found.newest}, this Relaybox knows version {known}.",
            next_step="Install the newer Relaybox here; it was used on this store already.",
        )
    what = (
        f"its schema is version {found.newest}, this Relaybox needs version {known}"
        if found.newest
        else "it has no relaybox schema"
    )
    raise errors.StoreNotInitialised(f"store {store}: {what}.", next_step="Run: relaybox init")


def _applied_version(session: StoreSession) -> _Version:
    """Zeros for a database without the schema; in a short transaction of its own."""
    session = session.doing("reading the schema version")
    refuse_superuser(session)
    version = _Version(0, 0)
    if session.value(f"select {IS_STORE}"):
        # a migration that has no phase is of a store that has not been told yet
        version = session.row(
            _Version,
            """
            select coalesce(max(number), 0) as newest,
                coalesce(max(number) filter (where coalesce(to_jsonb(m) ->> 'phase', 'post') = 'post'), 0) as newest_post
            from relaybox.migration m
            """,
        )
    session.rollback()
    return version
