"""`relaybox init` over several stores: all are checked before one is changed, and what was interrupted can be finished or taken back.

1. Each store is locked against other inits, in the order of the names, so that two inits come one after the other.
2. Each store is brought up to date in a transaction that is rolled back. An error in one of them ends the init: nothing has changed.
3. Where the rules of a stream change, every store of it is held first: it decides nothing by either rules (init.registration releases it).
   Otherwise an init that was killed between two stores could leave one that has delivered by the new rules and one by the old.
4. Each store is brought up to date, in a transaction of its own; a short one after it makes outbox segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import psycopg2

from relaybox import errors
from relaybox.failpoints import reach
from relaybox.stores.init.event_triggers import naming_event_triggers
from relaybox.stores.init.locks import OTHER_INIT_SECONDS, add_phases, init_is_held, lock_init, require_owner
from relaybox.stores.init.one_store import StoreInitialised, apply_routes, apply_schema, init_transaction, initialise_store
from relaybox.stores.schema.migrations import COMMAND_ROW, phases_migration
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Hop, Routes, Store

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What an init did, and which stores failed. `stores` is empty when a check failed: no store was changed."""

    stores: tuple[StoreInitialised, ...]
    failures: Mapping[str, errors.RelayboxError]


@dataclass(frozen=True)
class StoreCheck:
    """What an init would find in a store.

    Attributes:
        changing: hops that arrive here and whose stream gets other rules.
        held: hops that arrive here and whose stream an unfinished init holds.
        done: what it would do to the store.
    """

    changing: tuple[Hop, ...]
    held: tuple[Hop, ...]
    done: StoreInitialised


@dataclass
class _Failures:
    """Errors by store."""

    by_store: dict[str, errors.RelayboxError] = field(default_factory=dict)

    def of_each(self, stores: Sequence[Store], do: Callable[[Store], T]) -> dict[str, T]:
        """Calls `do` for each store; one that fails stops none of the others."""
        done: dict[str, T] = {}
        for store in stores:
            try:
                done[store.name] = do(store)
            except errors.RelayboxError as error:
                self.by_store[store.name] = error
        return done


def initialise_stores(
    stores: Sequence[Store],
    routes: Routes,
    *,
    older: bool = False,
    recorded_by: str | None = None,
    require: Callable[[Sequence[StoreInitialised]], object] = lambda _: None,
) -> Outcome:
    """Brings stores up to date, all or (after an error of a check) none. Idempotent; killed anywhere, the next one goes on.

    Args:
        stores: those to change; all of a stream's stores where its rules change.
        routes: all routes.
        older: as initialise_store().
        recorded_by: as initialise_store().
        require: called with what would be done, while no other init can run, before anything is changed. What it raises ends the init.

    Raises:
        ConfigurationError: two of the stores are one database, or a stream changes its rules in a part of its stores only.
    """
    failures = _Failures()
    with ExitStack() as locks:
        sessions: dict[tuple[int, str], str] = {}
        failures.of_each(sorted(stores, key=lambda one: one.name), lambda store: _lock(store, locks, sessions))
        checks = {} if failures.by_store else failures.of_each(stores, lambda store: check_store(store, routes, older=older))
        if failures.by_store:
            return Outcome((), failures.by_store)
        _require_all_stores_of(checks, routes)
        require([check.done for check in checks.values()])
        reach("init.checked", None)
        _hold(stores, checks, failures, older=older)
        if failures.by_store:
            return Outcome((), failures.by_store)
        done = failures.of_each(
            stores,
            lambda store: initialise_store(store, routes, older=older, recorded_by=recorded_by),
        )
    return Outcome(tuple(done.values()), failures.by_store)


def plan_stores(stores: Sequence[Store], routes: Routes, *, older: bool = False) -> Outcome:
    """What initialise_stores() would do, without the outbox segments that it would make. Changes nothing.

    For a moment it holds the locks that an init holds. Arguments and errors as initialise_stores(); an error in one store hides no other.
    """
    failures = _Failures()
    checks = failures.of_each(stores, lambda store: check_store(store, routes, older=older))
    if not failures.by_store:
        _require_all_stores_of(checks, routes)
    return Outcome(tuple(check.done for check in checks.values()), failures.by_store)


def check_store(store: Store, routes: Routes, *, older: bool) -> StoreCheck:
    """Does to a store what an init would do, and rolls it back. Outbox segments are left out: making them locks the outbox.

    Raises:
        as initialise_store().
    """
    with init_transaction(store) as session:
        session.execute(_KEEP_IDENTITIES)
        applied = apply_schema(session, store, older=older)
        arriving = [hop for hop in routes.hops if hop.destination == store]
        changing = tuple(hop for hop in arriving if _changes_rules(session, hop))
        held_names = _held_hops(session)
        done = apply_routes(session, store, routes, applied)
        session.rollback()
    return StoreCheck(changing, tuple(hop for hop in arriving if hop.name in held_names), done)


# A number that a sequence gave is not given back by a rollback, but what `alter sequence` did is: with it the numbers given since.
# It waits for each transaction that took a number: only of tables in which nothing but an init makes rows.
_KEEP_IDENTITIES = """
do $$
declare
    identity record;
    next_number bigint;
begin
    for identity in
        select d.objid::regclass as name from pg_depend d
        join pg_class c on c.oid = d.objid and c.relkind = 'S'
        where d.classid = 'pg_class'::regclass and d.deptype = 'i' and d.refobjid = any(array[
            to_regclass('relaybox_internal.hop_in'), to_regclass('relaybox_internal.hop_out'), to_regclass('relaybox_internal.stream')
        ]::oid[])
    loop
        execute format('select last_value + is_called::integer from %s', identity.name) into next_number;
        execute format('alter sequence %s restart with %s', identity.name, next_number);
    end loop;
end
$$
"""


def _changes_rules(session: StoreSession, hop: Hop) -> bool:
    return bool(
        session.call(
            "relaybox_internal.stream_rules_differ", hop.name, hop.stream, hop.origin.name, hop.order, hop.message_id_window
        )
    )


def _held_hops(session: StoreSession) -> set[str]:
    return set(
        session.values(
            """
            select i.hop from relaybox_internal.stream s join relaybox_internal.stream_log l using (stream_id)
                join relaybox_internal.hop_in i using (log_id)
            where s.rules_pending
            """
        )
    )


class _Backend(NamedTuple):
    pid: int
    started_at: str
    is_this: bool


def _lock(store: Store, locks: ExitStack, sessions: dict[tuple[int, str], str]) -> None:
    """Keeps other inits away from a store until `locks` ends; two names of one database are refused."""
    connection = locks.enter_context(closing(connect(store.service, application_name="relaybox init")))
    session = StoreSession(connection, store.name, "waiting for another init")
    backends = session.rows(
        _Backend,
        """
        select pid, backend_start::text as started_at, pid = pg_backend_pid() as is_this
        from pg_stat_activity where datname = current_database()
        """,
    )
    for pid, started_at, is_this in backends:
        if (pid, started_at) in sessions:
            raise errors.ConfigurationError(
                f"stores {sessions[pid, started_at]} and {store.name} are one database.",
                next_step="Correct the service file, or have the routes name one store.",
            )
        if is_this:
            this = (pid, started_at)
    session.execute("set idle_in_transaction_session_timeout = 0")
    session.value("select set_config('lock_timeout', %s, false)", f"{OTHER_INIT_SECONDS}s")
    try:
        with naming_event_triggers(session):
            require_owner(session)
            add_phases(session, phases_migration().text)
            session.commit()
            lock_init(session, COMMAND_ROW)
    except errors.StoreBusy as error:
        if isinstance(error.__cause__, psycopg2.errors.LockNotAvailable):
            raise init_is_held(session, OTHER_INIT_SECONDS) from None
        raise
    sessions[this] = store.name


def _require_all_stores_of(checks: Mapping[str, StoreCheck], routes: Routes) -> None:
    """A stream's rules change in all its stores or in none: a part of them would decide otherwise than the rest."""
    streams = {hop.stream for check in checks.values() for hop in (*check.changing, *check.held)}
    for stream in sorted(streams):
        wanted = {hop.destination.name for hop in routes.hops if hop.stream == stream}
        if missing := sorted(wanted - checks.keys()):
            raise errors.ConfigurationError(
                f"stream {stream} changes its rules in its stores {', '.join(sorted(wanted))}; {', '.join(missing)} is left out. "
                "No store was changed.",
                next_step="Run: relaybox init",
            )


def _hold(stores: Sequence[Store], checks: Mapping[str, StoreCheck], failures: _Failures, *, older: bool) -> None:
    """Holds the streams whose rules change, in every store where they do; after an error it takes that back."""
    changing = [store for store in stores if checks[store.name].changing]
    held = failures.of_each(changing, lambda store: _hold_streams(store, checks[store.name].changing, older=older))
    if failures.by_store:
        failures.of_each([store for store in changing if store.name in held], _release_streams)


def _hold_streams(store: Store, hops: Sequence[Hop], *, older: bool) -> None:
    with init_transaction(store) as session:
        apply_schema(session, store, older=older)
        for hop in hops:
            session.call("relaybox_internal.hold_stream", hop.name)
        session.commit("init_hold")


def _release_streams(store: Store) -> None:
    with init_transaction(store) as session:
        session.execute("update relaybox_internal.stream set rules_pending = false where rules_pending")
        session.commit("init_hold")
