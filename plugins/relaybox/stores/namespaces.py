"""The two schemas of a store, and the rights that a login needs on them to run `relaybox init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.sessions import StoreSession


class _Schema(NamedTuple):
    """A schema of ours, and what the session's login may do.

    Attributes:
        owner: None where there is no such schema.
        store_owner: the owner of schema relaybox; None where there is none.
        owned: the login has the owner's rights.
        is_foreign: its owner is neither that of the store, nor (before there is a store) the login, which is a superuser.
        holds_store: its owner differs, but the tables of the store in it are those of the owner of relaybox.migration.
        may_create: the login may make schemas in the database.
        login, database: as SQL writes their names.
    """

    name: str
    owner: str | None
    store_owner: str | None
    owned: bool
    is_foreign: bool
    holds_store: bool
    may_create: bool
    login: str
    database: str


_SCHEMAS = """
select s.name, n.nspowner::regrole::text as owner, o.nspowner::regrole::text as store_owner,
    coalesce(pg_has_role(n.nspowner, 'usage'), false) as owned,
    coalesce(
        case
            when to_regclass('relaybox.migration') is not null then n.nspowner <> o.nspowner
            else n.nspowner <> r.oid and r.rolsuper
        end,
        false
    ) as is_foreign,
    exists (
        select from pg_class m join pg_class t on t.relowner = m.relowner
        where m.relnamespace = o.oid and m.relname = 'migration' and t.relnamespace = n.oid and t.relname = 'store'
    ) as holds_store,
    has_database_privilege(d.oid, 'create') as may_create, quote_ident(current_user) as login, quote_ident(d.datname) as database
from unnest(array['relaybox', 'relaybox_internal']) s (name)
join pg_database d on d.datname = current_database()
join pg_roles r on r.rolname = current_user
left join pg_namespace n on n.nspname = s.name
left join pg_namespace o on o.nspname = 'relaybox'
"""


def require_schemas(session: StoreSession) -> None:
    """Refuses a login that neither owns the two schemas nor may make them: before init touches what is in them.

    Raises:
        StoreUnusable: the login may not make one of the schemas, or another role owns it. The error names the statement that mends it.
    """
    schemas = session.rows(_Schema, _SCHEMAS)
    for schema in schemas:
        if schema.owner is None and not schema.may_create:
            raise errors.StoreUnusable(
                f"store {session.store}: login {schema.login} may not make schema {schema.name} in database {schema.database}. "
                "Init changed nothing.",
                next_step=f"As a superuser: create schema {schema.name} authorization {schema.login}; then run: relaybox init",
            )
        if schema.is_foreign and schema.holds_store:  # to drop it would drop the messages
            raise errors.StoreUnusable(
                f"store {session.store}: schema {schema.name} belongs to {schema.owner}, schema relaybox to another role. "
                "Init changed nothing.",
                next_step=f"As a superuser: alter schema {schema.name} owner to {schema.store_owner}; then run: relaybox init",
            )
        if schema.is_foreign:  # its owner could put functions there that run with the rights of the store's owner
            raise errors.StoreUnusable(
                f"store {session.store}: schema {schema.name} belongs to {schema.owner}, which does not own the store. "
                "Init changed nothing.",
                next_step=f"Look at what is in it (\\df {schema.name}.*); as a superuser: drop schema {schema.name} cascade; "
                "then run: relaybox init",
            )
        if schema.owner is not None and not schema.owned:
            raise errors.StoreUnusable(
                f"store {session.store}: login {schema.login} does not own schema {schema.name}; {schema.owner} does. "
                "Init changed nothing.",
                next_step=f"Run init as {schema.owner}, or as a superuser: "
                f"{'; '.join(f'alter schema {one.name} owner to {schema.login}' for one in schemas if one.owner and not one.owned)}; "
                "then run: relaybox init",
            )
