"""Rights that roles of the user lose by an init: with a right of PUBLIC goes what its grantor had granted on (`revoke ... cascade`).

They are found by a comparison of before and after, so that nothing that Postgres revokes is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.stores.sessions.store_session import StoreSession


class GrantedRight(NamedTuple):
    """`what` names the object, `key` has its oid: a migration renames objects, and others are dropped and made again."""

    key: str
    what: str


GRANTED_RIGHTS = """
select distinct pg_catalog.concat_ws(' ', o.id, a.privilege_type, g.is_option, a.grantee) as key,
    pg_catalog.concat(
        a.privilege_type, case when g.is_option then ' (grant option)' end, ' on ', o.name, ' from ', a.grantee::regrole
    ) as what
from (
    select c.oid::text as id, case c.relkind when 'v' then 'view ' when 'S' then 'sequence ' else 'table ' end || c.oid::regclass as name,
        c.relowner as owner, c.relacl as acl
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('relaybox', 'relaybox_internal') and c.relacl is not null
    union all
    select c.oid || '.' || t.attnum, 'column ' || pg_catalog.quote_ident(t.attname) || ' of ' || c.oid::regclass, c.relowner, t.attacl
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute t on t.attrelid = c.oid and t.attacl is not null and not t.attisdropped
    where n.nspname in ('relaybox', 'relaybox_internal')
    union all
    select 'f' || p.oid, 'function ' || p.oid::regprocedure, p.proowner, p.proacl
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('relaybox', 'relaybox_internal') and p.proacl is not null
    union all
    select 'n' || n.oid, 'schema ' || n.nspname, n.nspowner, n.nspacl
    from pg_catalog.pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal') and n.nspacl is not null
) o
cross join pg_catalog.aclexplode(o.acl) a
join (values (false), (true)) g (is_option) on not g.is_option or a.is_grantable
where a.grantee not in (0, o.owner)
    and a.grantee::regrole::text !~ '^relaybox_(producer|consumer|reader|viewer|operator|driver)$'
"""
"""Of roles that are neither the owner of the object nor made by init, each as `SELECT on view relaybox.inbox from teller`."""


def list_granted_rights(session: StoreSession) -> tuple[GrantedRight, ...]:
    """As GRANTED_RIGHTS; a database without schemas of ours has none."""
    return tuple(session.rows(GrantedRight, GRANTED_RIGHTS))


def describe_revoked(before: Sequence[GrantedRight], after: Sequence[GrantedRight]) -> tuple[str, ...]:
    """What is gone, each as a clause: `revoked SELECT on view relaybox.inbox from teller`."""
    keys, whats = {one.key for one in after}, {one.what for one in after}
    return tuple(sorted(f"revoked {one.what}" for one in before if one.key not in keys and one.what not in whats))
