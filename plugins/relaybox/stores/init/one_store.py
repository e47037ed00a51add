"""The schema of a store: tables, functions, views, grants from `sql/`, and the hops registered in it.

Tables come from stores.schema.migrations. A function or view is replaced whenever its file changed (stores.schema.functions). All of it is
one transaction, so a store is either as before or fully up to date.
Outbox segments are made after it, as before each transfer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg2

from relaybox import errors
from relaybox.contracts.store_checks import write_store_checks
from relaybox.stores.init.event_triggers import naming_event_triggers
from relaybox.stores.init.locks import lock_init, refuse_older_code, require_owner, schema_is_held
from relaybox.stores.init.revoked_rights import describe_revoked, list_granted_rights
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
from relaybox.stores.schema.table_definitions import mend_tables
from relaybox.stores.sessions.settings import LOCK_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from relaybox.routes import Hop, Retention, Routes, Store
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

SEGMENT_ROWS = 1_000_000
CREATE_DATABASE = "create database NAME encoding 'UTF8' lc_collate 'C' lc_ctype 'C' template template0"
"""Locale C goes with every encoding, so it can be run on each server, whatever the encoding of its other databases."""

ROLES = ("relaybox_producer", "relaybox_consumer", "relaybox_reader", "relaybox_viewer", "relaybox_operator", "relaybox_driver")


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
    differing: tuple[str, ...]  # of tables what init leaves, each with the statement that mends it
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
    tables = mend_tables(session)
    session.call("relaybox_internal.renew_adoptions")
    durability_changed = record_server(session, store)
    revoked = describe_revoked(granted, list_granted_rights(session))
    repaired = (*defects.describe(), *tables.mended, *revoked)
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
        tuple(_switches_kept_on(session, store)),
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


def renew_payload_checks(session: Statements, store: Store, routes: Routes) -> Any:
    """Has the store check messages by their schemas as relaybox.yaml says; returns what changed. The trigger comes after the commit.

    Raises:
        ConfigurationError: a schema can't be read or checked in SQL, or a version refuses what the one before it took.
    """
    return session.call("relaybox_internal.renew_payload_checks", write_store_checks(routes, store))


def set_switches(session: Statements, store: Store) -> tuple[str, str, str, str]:
    """Switches what the store binds or asks for on or off, as relaybox.yaml says; returns what it did, in words."""
    return (
        _switch(session, "relaybox_internal.bind_senders", asked=store.bind_senders),
        _switch(session, "relaybox_internal.bind_subscriptions", asked=store.bind_subscriptions),
        _switch(session, "relaybox_internal.bind_topics", asked=store.bind_topics),
        _switch(session, "relaybox_internal.require_approvals", asked=store.require_approval),
    )


def _switch(session: Statements, function: str, *, asked: bool | None) -> str:
    """Calls a function that switches a binding on or off; what it did, in words. Nothing is asked where the file has no such key."""
    if asked is None:
        return "unchanged"
    is_switched = session.call(function, asked)
    return ("switched on" if asked else "switched off") if is_switched else "unchanged"


class _Switches(NamedTuple):
    """What is on in a store, by the keys of relaybox.yaml."""

    bind_senders: bool
    bind_subscriptions: bool
    bind_topics: bool
    require_approval: bool


def _switches_kept_on(session: StoreSession, store: Store) -> Iterator[str]:
    """An owner who takes the key out of the file may expect that it is off now."""
    recorded = session.row(
        _Switches,
        """
        select o.relrowsecurity as bind_senders, s.bind_subscriptions, s.bind_topics, s.require_approval
        from relaybox_internal.store s join pg_class o on o.oid = 'relaybox.outbox'::regclass
        """,
    )
    for key, is_on in recorded._asdict().items():
        if is_on and getattr(store, key) is None:
            yield key


def check_server(session: Statements, store: Store) -> None:
    """Refuses a server or database that init cannot use, and a store of a newer version.

    Raises:
        StoreUnusable, SchemaTooNew: as initialise_store().
    """
    parameters = {
        "service": store.service,
        "asks_fsync": store.durability == "server",
        "create_database": CREATE_DATABASE,
    }
    session.refuse(_SERVER_PROBLEMS, parameters, kind=errors.StoreUnusable)
    session.when(f"select {IS_STORE}", do=lambda: _refuse_newer(session))


_SERVER_PROBLEMS = """
select string_agg(p.problem, ' ' order by p.number) as told, 'Then run: relaybox init' as next_step
from (values
    (1, pg_is_in_recovery(), 'it is a standby; Relaybox needs the primary. Point its libpq service to the primary.'),
    (
        2, current_setting('server_encoding') <> 'UTF8',
        'its encoding is ' || current_setting('server_encoding') || ', which can''t be changed; as a login with createdb: '
            || %(create_database)s || '; load a dump into it and correct dbname in section [' || %(service)s || '] of the service file.'
    ),
    (
        3, %(asks_fsync)s and (current_setting('fsync'), current_setting('full_page_writes')) <> ('on', 'on'),
        'fsync is ' || current_setting('fsync') || ' and full_page_writes is ' || current_setting('full_page_writes')
            || '; set both to on: without them a crash loses confirmed messages. If a provider makes commits durable by other means, '
            || 'say so in relaybox.yaml with durability: provider.'
    ),
    (
        4, current_setting('server_version_num')::integer < 140000,
        'it runs Postgres ' || current_setting('server_version_num')::integer / 10000 || '; 14 or newer is needed.'
    )
) p (number, holds, problem)
where p.holds
having count(*) > 0
"""


def _refuse_newer(session: Statements) -> None:
    known = migrations.newest_migration().number
    session.refuse(
        """
        select 'its schema is version ' || max(m.number) || %s as told,
            'Install the newer Relaybox here; it was used on this store already.' as next_step
        from relaybox.migration m having max(m.number) > %s
        """,
        *(f", this Relaybox knows version {known}.", known),
        kind=errors.SchemaTooNew,
    )


def create_roles(session: Statements) -> tuple[str, ...]:
    """Makes those of ROLES that the cluster does not have; returns them.

    Raises:
        StoreUnusable: roles are missing, and the login may not make them.
    """
    session.refuse(_MISSING_ROLES, list(ROLES), kind=errors.StoreUnusable)
    created = [session.when(_LACKS_ROLE, role, do=functools.partial(_create_role, session, role)) for role in ROLES]
    return tuple(role for role in created if role is not None)


_LACKS_ROLE = "select not exists (select from pg_roles r where r.rolname = %s)"

_MISSING_ROLES = """
select 'roles are missing (' || string_agg(m.role, ', ' order by m.number) || '), and the login of init may not create roles.' as told,
    'Have a login with createrole run: ' || string_agg('create role ' || m.role || ' nologin;', ' ' order by m.number)
        || ' Then run: relaybox init' as next_step
from unnest(%s::text[]) with ordinality m (role, number)
where not exists (select from pg_roles r where r.rolname = m.role)
    and not (select r.rolsuper or r.rolcreaterole from pg_roles r where r.rolname = current_user)
having count(*) > 0
"""


def _create_role(session: Statements, role: str) -> str:
    # roles belong to the cluster: another store of it may be making the same one now
    session.execute(
        f"do $$ begin create role {role} nologin; exception when duplicate_object or unique_violation then null; end $$"
    )
    return role


def name_store(session: Statements, store: Store, segment_rows: int) -> None:
    """Records the store's name and the rows of a segment.

    Raises:
        ConfigurationError: this database is another store already.
    """
    session.refuse(
        """
        select %(told)s || s.store || '.' as told, 'Correct the service file or the name in relaybox.yaml.' as next_step
        from relaybox_internal.store s where s.store <> %(store)s
        """,
        {"told": f"the database behind service {store.service} is already store ", "store": store.name},
        kind=errors.ConfigurationError,
    )
    session.execute(
        """
        insert into relaybox_internal.store (store, segment_rows)
        select %s, %s where not exists (select from relaybox_internal.store)
        """,
        *(store.name, segment_rows),
    )


def record_server(session: Statements, store: Store) -> bool:
    """Records how commits are durable, and whose transaction numbers the outbox carries; returns whether durability changed.

    Later only reanchor and attest change whose numbers they are.
    """
    durability_changed = session.call("relaybox_internal.set_durability", store.durability, store.durability_reason)
    session.execute(
        """
        update relaybox_internal.store set system_identifier = f.system_identifier, timeline = f.timeline
        from relaybox_internal.cluster_fingerprint() f where store.system_identifier is null
        """
    )
    return bool(durability_changed)


def register_hops(session: Statements, store: Store, routes: Routes, recorded_by: str | None = None) -> dict[str, str]:
    """Registers the hops that arrive in the store and leave it, and frees streams that an earlier init held; returns what it did.

    Records as well which of the hops that leave the store are in the file, for who retires a hop; recorded_by as initialise_store().
    """
    done = {f"{hop.name} in": _register_hop_in(session, hop) for hop in routes.hops if hop.destination == store}
    done |= {f"{hop.name} out": _register_hop_out(session, hop) for hop in routes.hops if hop.source == store}
    session.call("relaybox_internal.record_hops_of_file", [hop.name for hop in routes.hops if hop.source == store], recorded_by)
    _release_topics(session, [hop for hop in routes.hops if hop.destination == store])
    session.execute("update relaybox_internal.stream set rules_pending = false where rules_pending")
    return done


def _release_topics(session: Statements, hops: Sequence[Hop]) -> None:
    """Records that a stream no longer carries what no route of the file gives it: a subscription by topic finds the stream that does.

    Args:
        session: the session.
        hops: all that arrive in the store.
    """
    carried = [(hop.stream, topic) for hop in hops for topic in hop.topics]
    session.execute(
        """
        update relaybox_internal.stream_topic k set
            carried_by = 'nobody', left_after_subscription = (select max(n.subscription_id) from relaybox_internal.subscription n)
        from relaybox_internal.stream s
        where s.stream_id = k.stream_id and k.carried_by = 'file' and not exists (
            select from unnest(%s::text[], %s::text[]) c (stream, topic) where c.stream = s.stream and c.topic = k.topic
        )
        """,
        [stream for stream, _ in carried],
        [topic for _, topic in carried],
    )


def _register_hop_in(session: Statements, hop: Hop) -> str:
    registered = session.value("select registered from relaybox_internal.register_hop_in(%s, %s)", hop.name, hop.source.name)
    stream = session.call(
        "relaybox_internal.register_stream",
        *(hop.name, hop.stream, hop.origin.name, hop.order, hop.message_id_window),
        *(hop.limits.holdback_rows, hop.limits.fragments),
    )
    kept = _keep_log(session, hop.name, hop.log_retention)
    session.execute(
        """
        update relaybox_internal.stream set topics_by_subscription = %(asked)s
        where stream = %(stream)s and topics_by_subscription <> %(asked)s
        """,
        {"asked": hop.topics_by_subscription, "stream": hop.stream},
    )
    session.call("relaybox_internal.register_topics", hop.stream, list(hop.topics))
    return "registered" if registered else "changed" if kept else str(stream)


def _register_hop_out(session: Statements, hop: Hop) -> str:
    registered = session.value(
        """
        select relaybox_internal.register_hop_out(%(hop)s, %(destination)s, %(upstream)s, t.topics, %(policy)s, %(processed_by)s)
        from (
            select case
                when s.topics <@ %(topics)s::text[] then %(topics)s::text[]
                else array(
                    select u.topic from unnest(%(topics)s::text[] || s.topics) u (topic) group by u.topic order by u.topic collate "C"
                )
            end as topics
            from (
                select coalesce(relaybox_internal.keep_subscribed_topics(%(hop)s, %(topics)s, %(by_subscription)s), '{}') as topics
            ) s
            offset 0
        ) t
        """,
        {
            "hop": hop.name,
            "destination": hop.destination.name,
            "upstream": hop.upstream,
            "topics": list(hop.topics),
            "policy": hop.policy,
            "processed_by": list(hop.processed_by) or None,
            "by_subscription": hop.topics_by_subscription,
        },
    )
    kept = _keep_outbox(session, hop.name, hop.outbox_retention)
    return "changed" if kept and registered == "unchanged" else str(registered)


def _keep_outbox(session: Statements, hop: str, retention: Retention) -> bool:
    """Writes down how long what a hop reads is kept; tells whether that is new."""
    kept = (retention.replay_window_seconds, retention.stopped_consumer)
    changed = session.execute(
        """
        update relaybox_internal.hop_out set replay_window_seconds = %s, stopped_consumer = %s
        where hop = %s and (replay_window_seconds, stopped_consumer) is distinct from (%s::bigint, %s)
        """,
        *(*kept, hop, *kept),
    )
    return changed > 0


def _keep_log(session: Statements, hop: str, retention: Retention) -> bool:
    """The same of a hop's log, which may be detached too."""
    kept = (
        *(retention.replay_window_seconds, retention.stopped_consumer),
        *(retention.detach_after_seconds, retention.detach_to),
    )
    changed = session.execute(
        """
        update relaybox_internal.hop_in
        set replay_window_seconds = %s, stopped_consumer = %s, detach_after_seconds = %s, detach_to = %s
        where hop = %s and (replay_window_seconds, stopped_consumer, detach_after_seconds, detach_to)
            is distinct from (%s::bigint, %s, %s::bigint, %s)
        """,
        *(*kept, hop, *kept),
    )
    return changed > 0
