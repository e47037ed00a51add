"""What a server and a database must be and have for a store, and what a store records of them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.stores.schema import migrations
from relaybox.stores.schema.namespaces import IS_STORE

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.schema.statements import Statements


CREATE_DATABASE = "create database NAME encoding 'UTF8' lc_collate 'C' lc_ctype 'C' template template0"
"""Locale C goes with every encoding, so it can be run on each server, whatever the encoding of its other databases."""

ROLES = ("relaybox_producer", "relaybox_consumer", "relaybox_reader", "relaybox_viewer", "relaybox_operator", "relaybox_driver")


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
