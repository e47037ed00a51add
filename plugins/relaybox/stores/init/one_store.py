"""`relaybox init` of one store: its tables, functions, views and grants from `sql/`, then what relaybox.yaml says (init.registration).

Tables come from stores.schema.migrations. A function or view is replaced whenever its file changed (stores.schema.functions). All of it is
one transaction, so a store is either as before or fully up to date.
Outbox segments are made after it, as before each transfer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psycopg2

from relaybox import errors
from relaybox.stores.init.event_triggers import naming_event_triggers
from relaybox.stores.init.locks import lock_init, refuse_older_code, require_owner, schema_is_held
from relaybox.stores.init.registration import list_switches_kept_on, register_hops, renew_payload_checks, set_switches
from relaybox.stores.init.revoked_rights import describe_revoked, list_granted_rights
from relaybox.stores.init.server import check_server, create_roles, name_store, record_server
from relaybox.stores.opening import connect_store
from relaybox.stores.readers.changed_sinks import describe_changed
from relaybox.stores.readers.orphaned_hops import compare_removed, describe_in_use, list_orphaned_hops, list_removed_hops
from relaybox.stores.readers.orphaned_sinks import describe_renamed
from relaybox.stores.readers.orphaned_subscriptions import describe_orphaned
from relaybox.stores.schema import migrations
from relaybox.stores.schema.functions import list_files, read_files, renew_functions
from relaybox.stores.schema.functions_version import refuse_older_functions
from relaybox.stores.schema.migrations import TRANSACTION_ROW
from relaybox.stores.schema.namespaces import IS_STORE
from relaybox.stores.schema.object_defects import find_defects, name_altered_views
from relaybox.stores.schema.sql_files import read_init_file
from relaybox.stores.schema.table_definitions import repair_tables
from relaybox.stores.sessions.settings import LOCK_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

SEGMENT_ROWS = 1_000_000


@dataclass(frozen=True)
class StoreInitialised:
    """What `relaybox init` did to one store. Empty lists: it was up to date."""

    store: str
    migrations: tuple[str, ...]
    functions_renewed: bool
    roles_created: tuple[str, ...]
    segments_made: tuple[str, ...]
    hops: dict[str, str]  # "flights/1 out" -> registered | changed | removed | unchanged
    sender_binding: str  # to database roles: switched on | switched off | unchanged
    subscription_binding: str  # as sender_binding
    topic_binding: str  # as sender_binding
    approvals: str  # of messages that are given again; as sender_binding
    switches_kept_on: tuple[str, ...]  # keys such as bind_topics that are on in the store and not in the file
    durability: str  # server | provider
    durability_changed: bool
    orphaned_hops: tuple[str, ...]  # hops that leave the store, of no route in the file, not retired
    hops_in_use: tuple[str, ...]  # of these: what speaks for a newer file that has them, and what to do then
    renamed_sinks: tuple[
        str, ...
    ]  # new sinks that may be one that the file lacks: where each begins; sinks in another store or stream
    orphaned_subscriptions: tuple[str, ...]  # that no route fills, or that lost topics: what is wrong, and how each goes on
    public_rights: tuple[str, ...]  # what every login may do in the database without a grant: CONNECT, TEMPORARY
    public_rights_revoked: tuple[str, ...]  # which of these this init took from PUBLIC
    repaired: tuple[str, ...]  # what was not as an earlier init had made it: objects or tables changed, rights revoked
    differing: tuple[str, ...]  # of tables what init leaves, each with the statement that repairs it
    payload_checks: tuple[str, ...]  # what changed of the checks that relaybox.yaml asks for with schema_checks

    @property
    def is_new(self) -> bool:
        """Whether the database had no schema of Relaybox."""
        return self.migrations == (migrations.name_tables(),)

    @property
    def changed(self) -> bool:
        return bool(
            self.migrations
            or self.functions_renewed
            or self.roles_created
            or self.segments_made
            or set(self.hops.values()) - {"unchanged"}
            or self.sender_binding != "unchanged"
            or self.subscription_binding != "unchanged"
            or self.topic_binding != "unchanged"
            or self.approvals != "unchanged"
            or self.durability_changed
            or self.repaired
            or self.payload_checks
        )


def initialise_store(
    store: Store, routes: Routes, *, segment_rows: int = SEGMENT_ROWS, older: bool = False, recorded_by: str | None = None
) -> StoreInitialised:
    """Brings one store up to date and registers the hops that arrive in it and leave it. Idempotent.

    One transaction; then two short ones make outbox segments, and the trigger of schema_checks. They lock the outbox, and a driver reads it
    while it holds its hop.

    Args:
        store: the store.
        routes: all routes; hops of other stores are passed over.
        segment_rows: rows of an outbox or log segment, taken when the store is made; later calls keep what it has.
        older: to replace functions that a newer Relaybox made.
        recorded_by: who runs the init, for the ledgers; None: the login.

    Raises:
        StoreUnusable: a standby, a wrong encoding, fsync off, or missing rights.
        SchemaTooNew: made by a newer Relaybox, the tables or (without `older`) the functions; nothing was changed.
        ConfigurationError: this database is another store already, or a schema of schema_checks is wrong.
        ObjectsInTheWay: something that is not ours depends on a function or view that must be dropped.
        HopChanged: a registered hop got another path or was retired, or a stream that delivered already got another order.
    """
    with init_transaction(store) as session:
        applied = apply_schema(session, store, segment_rows, older=older)
        done = apply_routes(session, store, routes, applied, recorded_by)
        session.reach("init.applied")
        session.commit("init")
        segments = tuple(session.call("relaybox_internal.ensure_outbox_segments"))
        session.reach("outbox_segments.made")
        session.commit("outbox_segments")
        placed = tuple(session.call("relaybox_internal.place_payload_trigger"))
        session.reach("payload_trigger.placed")
        session.commit("payload_trigger")
    return replace(done, segments_made=segments, payload_checks=(*done.payload_checks, *placed))


@dataclass(frozen=True)
class SchemaApplied:
    """What apply_schema() did; empty and False: it was up to date."""

    roles: tuple[str, ...]
    migrations: tuple[str, ...]
    functions_renewed: bool
    public_rights_before: tuple[str, ...]
    durability_changed: bool
    repaired: tuple[str, ...]
    differing: tuple[str, ...]


@contextmanager
def init_transaction(store: Store) -> Iterator[StoreSession]:
    """A transaction of an init that holds the store's lock; rolled back unless the block commits.

    Raises:
        StoreUnusable, SchemaTooNew: as initialise_store(); the block is not entered.
        StoreBusy: another session holds what the block wants to change; it is named.
    """
    with closing(connect_store(store, application_name="relaybox init")) as opened:
        require_owner(opened)
        check_server(opened, store)
        opened.rollback()
        session = opened.doing("initialising the store")
        with naming_event_triggers(session):
            lock_init(session, TRANSACTION_ROW)
            try:
                yield session
            except errors.StoreBusy as error:
                if isinstance(error.__cause__, psycopg2.errors.LockNotAvailable):
                    raise schema_is_held(session, LOCK_TIMEOUT_SECONDS) from None
                raise


def apply_schema(session: StoreSession, store: Store, segment_rows: int = SEGMENT_ROWS, *, older: bool = False) -> SchemaApplied:
    """Roles, migrations, functions, views and grants, in the session's transaction. What was changed by hand is made again.

    Raises:
        StoreUnusable: an object belongs to a role whose rights the login lacks.
        SchemaTooNew: a newer Relaybox made the functions, and `older` is false.
    """
    defects, granted = find_defects(session), list_granted_rights(session)
    make_way(session, older=older)
    before = _public_rights(session)
    roles = create_roles(session)
    applied = tuple(migrations.apply_migrations(session))
    name_store(session, store, segment_rows)
    renewed = renew_functions(session, migrations.sql_directory(), older=older)
    tables = repair_tables(session)
    session.call("relaybox_internal.renew_adoptions")
    durability_changed = record_server(session, store)
    revoked = describe_revoked(granted, list_granted_rights(session))
    repaired = (*defects.describe(), *tables.repaired, *revoked)
    return SchemaApplied(roles, applied, renewed, before, durability_changed, repaired, tables.differing)


def make_way(session: Statements, *, older: bool = False) -> None:
    """Locks what is about to change, before anything does; a `post` migration waits until no older code is there.

    Refuses functions of a newer version, unless `older`.
    """
    files = list_files(read_files(migrations.sql_directory()))
    session.set_local({"relaybox_init.files": files, "relaybox_init.migrations": migrations.list_migrations()})
    session.when(f"select {IS_STORE}", do=lambda: _refuse_versions(session, older=older))
    name_altered_views(session)
    session.execute(read_init_file("lock_relations"))


def _refuse_versions(session: Statements, *, older: bool) -> None:
    migrations.refuse_too_old(session)
    if not older:
        session.when(_HAS_OBJECTS, do=lambda: refuse_older_functions(session))
    refuse_older_code(session)


_HAS_OBJECTS = "select to_regclass('relaybox_internal.installed_object') is not null"


def _public_rights(session: StoreSession) -> tuple[str, ...]:
    """As relaybox_internal.public_rights(), which a database without the schema has not."""
    return tuple(
        session.values(
            "select r.name from unnest(array['CONNECT', 'TEMPORARY']) r (name) "
            "where has_database_privilege('public', current_database(), r.name)"
        )
    )


def apply_routes(
    session: StoreSession, store: Store, routes: Routes, applied: SchemaApplied, recorded_by: str | None = None
) -> StoreInitialised:
    """Hops, in the transaction in which the schema was applied. Streams that an earlier init held are free again."""
    orphaned_hops, removed = list_orphaned_hops(session, store, routes), list_removed_hops(session)
    hops = register_hops(session, store, routes, recorded_by)
    hops |= compare_removed(removed, list_removed_hops(session))
    senders, subscriptions, topics, approvals = set_switches(session, store)
    payload_checks = tuple(renew_payload_checks(session, store, routes))
    public = tuple(session.call("relaybox_internal.public_rights"))
    revoked = tuple(right for right in applied.public_rights_before if right not in public)
    return StoreInitialised(
        store.name,
        applied.migrations,
        applied.functions_renewed,
        applied.roles,
        (),
        hops,
        senders,
        subscriptions,
        topics,
        approvals,
        tuple(list_switches_kept_on(session, store)),
        store.durability,
        applied.durability_changed,
        tuple(one.hop for one in orphaned_hops if one.retired_at is None),
        tuple(describe_in_use(orphaned_hops)),
        (*describe_renamed(session, store, routes), *describe_changed(session, store, routes)),
        tuple(describe_orphaned(session, store, routes)),
        public,
        revoked,
        applied.repaired,
        applied.differing,
        payload_checks,
    )
