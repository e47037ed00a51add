"""What in a database depends on a function or view, as Postgres records it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.stores.sessions import StoreSession


@dataclass(frozen=True)
class Dependent:
    """An object that would go, or forbid it, if another one were dropped.

    Attributes:
        kind, identity: of a function or view, as relaybox_internal.installed_object has them; of anything else the catalogue and "".
        description: in the server's words: `view app.open_orders`, `policy own_rows on table app.orders`.
        owner: None where the object has the owner of its table.
    """

    kind: str
    identity: str
    description: str
    owner: str | None

    def __str__(self) -> str:
        return self.description if self.owner is None else f"{self.description} (owner {self.owner})"


_DEPENDENTS = """
with target as (
    select case %(kind)s when 'view' then 'pg_class' else 'pg_proc' end::regclass::oid as catalogue,
        case %(kind)s when 'view' then to_regclass(%(identity)s)::oid else to_regprocedure(%(identity)s)::oid end as object
), wanted as (
    select t.catalogue, t.object from target t
    union all
    -- the row type of a view, and the array of it
    select 'pg_type'::regclass, unnest(array[y.oid, y.typarray]) from target t join pg_type y on y.typrelid = t.object
    where t.catalogue = 'pg_class'::regclass
), found as (
    -- a view depends by its rule
    select distinct
        case when w.rulename = '_RETURN' then 'pg_class'::regclass::oid else d.classid end as catalogue,
        case when w.rulename = '_RETURN' then w.ev_class else d.objid end as object,
        case when w.rulename = '_RETURN' then 0 else d.objsubid end as part
    from wanted n
    join pg_depend d on d.refclassid = n.catalogue and d.refobjid = n.object and d.deptype in ('n', 'a')
    left join pg_rewrite w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
)
select
    case when c.relkind = 'v' then 'view' when p.oid is not null then 'function' else f.catalogue::regclass::text end as kind,
    case when c.relkind = 'v' or p.oid is not null then (pg_identify_object(f.catalogue, f.object, 0)).identity else '' end as identity,
    pg_describe_object(f.catalogue, f.object, f.part) as description, coalesce(c.relowner, p.proowner)::regrole::text as owner
from found f
left join pg_class c on f.catalogue = 'pg_class'::regclass and c.oid = f.object
left join pg_proc p on f.catalogue = 'pg_proc'::regclass and p.oid = f.object
where (f.catalogue, f.object) not in (select n.catalogue, n.object from wanted n)
order by description
"""


def list_dependents(session: StoreSession, kind: str, identity: str) -> list[Dependent]:
    """The objects that depend on a function or view directly, triggers and rules on a view included, by description."""
    return session.rows(Dependent, _DEPENDENTS, {"kind": kind, "identity": identity})
