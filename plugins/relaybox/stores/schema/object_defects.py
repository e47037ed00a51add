"""What is in a store against what init made: objects that are missing or were changed by hand, and rights that differ.

The digests of files say what init did last. They don't say what was dropped, replaced or revoked since, or left out by a dump.
Therefore init and doctor read the catalog: init records in relaybox_internal.installed_object a digest of each function and view as
Postgres has it, and relaybox_internal.list_right_defects() compares the rights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

SHOWN_DEFECTS = 10
"""Of more than these people read the number."""

JUDGES = ("list_right_defects", "list_role_rights")
"""The functions that know the rights: what they say counts only while they are as init made them."""


class _Object(NamedTuple):
    """Of installed_object; `state` is missing, changed or unknown: recorded by an init that, or on a server whose, digests differ."""

    kind: str
    name: str
    identity: str
    state: str


class RightDefect(NamedTuple):
    """A row of relaybox_internal.list_right_defects()."""

    kind: str
    identity: str
    defect: str
    statement: str
    is_mendable: bool


@dataclass(frozen=True)
class StoreDefects:
    """What differs from what init made.

    Attributes:
        objects: as `function relaybox.lag(text) is missing`.
        rights: of other objects than these; None: the functions that know the rights are themselves not as init made them.
        unrecorded: views that can't be judged, since another major version of Postgres wrote their record.
    """

    objects: tuple[str, ...]
    rights: tuple[RightDefect, ...] | None
    unrecorded: tuple[str, ...]

    def describe(self) -> tuple[str, ...]:
        """All that an init of this login can repair, each as a clause."""
        return (*self.objects, *(one.defect for one in self.rights or () if one.is_mendable))


NO_DEFECTS = StoreDefects((), (), ())

# Node trees and oids differ from database to database: texts only. The texts of functions are the same on all versions of Postgres.
_DEFINITIONS = """
select o.identity,
    case o.kind
        when 'view' then (
            select md5(concat_ws(e'\\n', pg_get_viewdef(c.oid), array(select unnest(c.reloptions) order by 1)::text))
            from pg_class c where c.oid = to_regclass(o.identity) and c.relkind = 'v'
        )
        else (
            select md5(concat_ws(
                e'\\n', p.prosrc, l.lanname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prokind,
                p.provolatile, p.proparallel, p.prosecdef, p.proisstrict, p.proleakproof,
                array(select unnest(p.proconfig) order by 1)::text
            ))
            from pg_proc p join pg_language l on l.oid = p.prolang where p.oid = to_regprocedure(o.identity)
        )
    end as definition
from relaybox_internal.installed_object o
"""

_MAJOR = "(current_setting('server_version_num')::integer / 10000)"

# Before the migration that adds the columns nothing is recorded.
ALTERED = f"""
select o.kind, o.name, o.identity,
    case
        when d.definition is null then 'missing'
        when to_jsonb(o) ->> 'definition' is null then 'unknown'
        when o.kind = 'view' and (to_jsonb(o) ->> 'made_on')::integer <> {_MAJOR} then 'unknown'
        else 'changed'
    end as state
from relaybox_internal.installed_object o
join ({_DEFINITIONS}) d using (identity)
where d.definition is distinct from to_jsonb(o) ->> 'definition'
order by 1, 3
"""  # noqa: S608

_ALTERED_OF = f"""
select a.kind || ' ' || replace(a.identity, 'pg_catalog.', '') from ({ALTERED}) a where a.name = any(%s) and a.state <> 'unknown'
"""  # noqa: S608

_MARK = f"""
with altered as materialized ({ALTERED}), forgotten as (
    delete from relaybox_internal.installed_object o using altered a where a.identity = o.identity and a.state = 'missing'
)
update relaybox_internal.installed_object o set digest = 'altered' from altered a where a.identity = o.identity and a.state <> 'missing'
"""  # noqa: S608

_HAS_RECORD = "select to_regclass('relaybox_internal.installed_object') is not null"

_NAME_VIEWS = f"""
do $name_altered_views$
begin
    perform set_config('relaybox_init.altered_views', coalesce((
        select json_agg(a.name)::text from ({ALTERED}) a where a.kind = 'view'
    ), '[]'), true);
end
$name_altered_views$
"""  # noqa: S608

_HAS_REPAIRABLE = """
select exists (
    select from relaybox_internal.list_right_defects() d where d.kind not in ('database', 'everywhere') or d.is_mendable
)
"""

_LEFT = f"""
select 'the login of init can''t repair ' || count(*) || ' rights: '
        || string_agg(d.defect, '; ' order by d.number) filter (where d.number <= {SHOWN_DEFECTS})
        || case when count(*) > {SHOWN_DEFECTS} then '; and ' || count(*) - {SHOWN_DEFECTS} || ' more' else '' end
        || '. Init changed nothing.' as told,
    'As a superuser: ' || string_agg(d.statement, '; ' order by d.number) || '; then run: relaybox init' as next_step
from (
    select l.defect, l.statement, row_number() over () as number from relaybox_internal.list_right_defects() l
    where l.kind not in ('database', 'everywhere')
) d
having count(*) > 0
"""  # noqa: S608

_RECORD = f"""
update relaybox_internal.installed_object o set definition = d.definition, made_on = {_MAJOR}
from ({_DEFINITIONS}) d
where d.identity = o.identity and (o.definition, o.made_on) is distinct from (d.definition, {_MAJOR})
"""  # noqa: S608


def shorten(defects: Sequence[str]) -> str:
    """As people read them: the first ones, and how many more there are."""
    more = len(defects) - SHOWN_DEFECTS
    return "; ".join([*defects[:SHOWN_DEFECTS], *([f"and {more:,} more"] if more > 0 else [])])


def find_defects(session: StoreSession) -> StoreDefects:
    """What in a store differs from what its last init made. Changes nothing, takes no lock; of a store without a record: nothing.

    Any role that may read relaybox_internal.installed_object may ask. In the session's transaction.
    """
    if session.value("select to_regclass('relaybox_internal.installed_object') is null"):
        return NO_DEFECTS
    altered = session.rows(_Object, ALTERED)
    found = [one for one in altered if one.state != "unknown"]
    unjudged = {one.identity for one in altered if one.kind == "view" and one.state == "unknown"}
    return StoreDefects(
        tuple(
            f"{one.kind} {one.identity.replace('pg_catalog.', '')} {'is missing' if one.state == 'missing' else 'is not as init made it'}"
            for one in found
        ),
        _find_right_defects(session, altered),
        tuple(sorted(unjudged)),
    )


def are_altered(session: StoreSession, functions: Sequence[str]) -> bool:
    """Whether one of these functions is missing, or not as init made it. In the session's transaction."""
    return bool(
        session.value(
            f"""
            select count(distinct o.name) filter (where a.name is null) < cardinality(%(names)s::text[])
            from relaybox_internal.installed_object o left join ({ALTERED}) a using (identity)
            where o.kind = 'function' and o.name = any(%(names)s::text[])
            """,  # noqa: S608
            {"names": list(functions)},
        )
    )


def find_altered(session: StoreSession, objects: Collection[str]) -> tuple[str, ...]:
    """Which of these functions and views, by name, are missing or not as init made them: `view relaybox_internal.sent_rows`.

    What an init has no record of counts as unaltered. Looks twice if it finds something: an init may commit between the reading of its
    record and of the objects. In the session's transaction, which must be read committed.
    """
    found: list[str] = []
    for _ in range(2):
        found = session.values(_ALTERED_OF, list(objects))
        if not found:
            break
    return tuple(found)


def _find_right_defects(session: StoreSession, altered: Iterable[_Object]) -> tuple[RightDefect, ...] | None:
    """Rights go with a dropped object, and come again with it: those of altered objects are left out."""
    if any(one.name in JUDGES for one in altered):
        return None
    if session.value("select to_regprocedure('relaybox_internal.list_right_defects()') is null"):
        return None
    identities = {one.identity for one in altered}
    return tuple(one for one in _list_right_defects(session) if one.identity not in identities)


def _list_right_defects(session: StoreSession) -> list[RightDefect]:
    return session.rows(RightDefect, "select * from relaybox_internal.list_right_defects()")


def name_altered_views(session: Statements) -> None:
    """Sets relaybox_init.altered_views, so that sql/init/lock_relations.sql locks what will be made again. In the transaction."""
    session.set_local({"relaybox_init.altered_views": "[]"})
    session.when(_HAS_RECORD, do=lambda: session.execute(_NAME_VIEWS))


def mark_altered_objects(session: Statements) -> None:
    """Has the renewal make again what is missing, was changed or was never recorded. In the session's transaction."""
    session.execute(_MARK)


def record_definitions(session: Statements) -> None:
    """Writes down what Postgres made of the files. After the renewal, in its transaction."""
    session.execute(_RECORD)


def repair_rights(session: Statements, grants: str) -> None:
    """Gives and takes back the rights that differ, by grants.sql. In the session's transaction.

    Raises:
        StoreUnusable: something belongs to a role whose rights the login lacks; the error has the statements for a superuser.
    """

    def repair() -> None:
        session.execute(grants)
        session.refuse(_LEFT, kind=errors.StoreUnusable)

    session.when(_HAS_REPAIRABLE, do=repair)
