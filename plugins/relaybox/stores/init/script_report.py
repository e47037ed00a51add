"""What a script of `relaybox init --sql` prints at its end: what `relaybox init` prints, found by a picture of the store before the change.

The picture is a setting of the transaction (relaybox_init.before), as all values of the script are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.stores.init.revoked_rights import GRANTED_RIGHTS
from relaybox.stores.readers.orphaned_hops import OLDER_FILE
from relaybox.stores.schema.migrations import name_tables
from relaybox.stores.schema.namespaces import IS_STORE
from relaybox.stores.schema.object_defects import ALTERED, JUDGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.routes import Routes, Store
    from relaybox.stores.schema.statements import Statements

SWITCHES = ("bind_senders", "bind_subscriptions", "bind_topics", "require_approval")

_PUBLIC_RIGHTS = """
(
    select coalesce(jsonb_agg(r.name), '[]') from unnest(array['CONNECT', 'TEMPORARY']) r (name)
    where has_database_privilege('public', current_database(), r.name)
)
"""

# a row of hop_in or hop_out as init writes it; of older stores some columns are not there
_HOPS = """
(
    select coalesce(jsonb_object_agg(h.name, h.row), '{}') from (
        select i.hop || ' in' as name, to_jsonb(i) as row from relaybox_internal.hop_in i
        union all
        select o.hop || ' out', to_jsonb(o) from relaybox_internal.hop_out o
    ) h
)
"""
_KEPT = (
    "array['replay_window_seconds', 'stopped_consumer', 'detach_after_seconds', 'detach_to', 'topics', 'policy', 'processed_by']"
)

_CHECKS = "(select coalesce(jsonb_agg(to_jsonb(t)), '[]') from relaybox_internal.checked_topic t)"

_OBJECTS = "(select coalesce(jsonb_object_agg(i.identity, i.digest), '{}') from relaybox_internal.installed_object i)"

_SETTINGS = """
(
    select to_jsonb(s) || jsonb_build_object('bind_senders', c.relrowsecurity)
    from relaybox_internal.store s, pg_class c where c.oid = 'relaybox.outbox'::regclass
)
"""

_RIGHTS = f"(select coalesce(jsonb_agg(jsonb_build_array(g.key, g.what)), '[]') from ({GRANTED_RIGHTS}) g)"  # noqa: S608

_ANY_DATABASE = f"""
do $before$
begin
    perform set_config('relaybox_init.before', jsonb_build_object(
        'migrations', '[]'::jsonb, 'objects', '{{}}'::jsonb, 'hops', '{{}}'::jsonb, 'defects', '[]'::jsonb, 'settings', '{{}}'::jsonb,
        'checks', '[]'::jsonb,
        'roles', (select jsonb_agg(r.rolname) from pg_roles r),
        'public_rights', {_PUBLIC_RIGHTS}, 'rights', {_RIGHTS}
    )::text, true);
end
$before$
"""  # noqa: S608

_ADD = """
do $before$
begin
    perform set_config('relaybox_init.before', (current_setting('relaybox_init.before')::jsonb || jsonb_build_object(
        {added}
    ))::text, true);
end
$before$
"""

_MIGRATIONS = "(select jsonb_agg(m.number) from relaybox.migration m)"

_HAS_HOPS = """
select count(*) = 4 from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'relaybox_internal' and c.relname in ('hop_in', 'hop_out', 'installed_object', 'store')
"""

_DEFECTS = f"""
(
    select coalesce(jsonb_agg(
        a.kind || ' ' || replace(a.identity, 'pg_catalog.', '')
            || case a.state when 'missing' then ' is missing' else ' is not as init made it' end order by a.kind, a.identity
    ), '[]')
    from ({ALTERED}) a where a.state <> 'unknown'
)
"""  # noqa: S608

_JUDGES_ARE_OURS = f"""
select to_regprocedure('relaybox_internal.list_right_defects()') is not null
    and not exists (select from ({ALTERED}) a where a.name = any(%s::text[]))
"""  # noqa: S608

_RIGHT_DEFECTS = f"""
(current_setting('relaybox_init.before')::jsonb -> 'defects') || (
    select coalesce(jsonb_agg(d.defect), '[]') from relaybox_internal.list_right_defects() d
    where d.is_mendable and d.identity not in (select a.identity from ({ALTERED}) a)
)
"""  # noqa: S608


def take_roles(session: Statements) -> None:
    """Before init makes roles; begins the picture."""
    session.execute(_ANY_DATABASE)


def take_picture(session: Statements) -> None:
    """Of a store, before anything in it changes; functions of the store may be called."""
    session.when(f"select {IS_STORE}", do=lambda: session.execute(_ADD.format(added=f"'migrations', {_MIGRATIONS}")))

    def take_objects() -> None:
        parts = {"objects": _OBJECTS, "hops": _HOPS, "settings": _SETTINGS, "defects": _DEFECTS}
        session.execute(_ADD.format(added=",\n        ".join(f"'{name}', {query}" for name, query in parts.items())))
        session.when(
            _JUDGES_ARE_OURS, list(JUDGES), do=lambda: session.execute(_ADD.format(added=f"'defects', {_RIGHT_DEFECTS}"))
        )

    session.when(_HAS_HOPS, do=take_objects)
    session.when(
        "select to_regclass('relaybox_internal.checked_topic') is not null",
        do=lambda: session.execute(_ADD.format(added=f"'checks', {_CHECKS}")),
    )


_REPORT = f"""
with pictures as (
    select current_setting('relaybox_init.before')::jsonb as before, {_SETTINGS} as settings, {_HOPS} as hops, {_OBJECTS} as objects,
        {_PUBLIC_RIGHTS} as public_rights, {_RIGHTS} as rights
), lines as (
    select 1 as number, 'owner' as what, n.nspowner::regrole::text as told from pg_namespace n where n.nspname = 'relaybox'
    union all
    select 2, 'migrations', case
        when p.before -> 'migrations' = '[]' then %(tables)s
        else (
            select string_agg(lpad(m.number::text, 4, '0') || ' ' || m.name, ', ' order by m.number) from relaybox.migration m
            where not p.before -> 'migrations' @> to_jsonb(m.number)
        )
    end from pictures p
    union all
    select 3, 'functions', case when p.before -> 'migrations' = '[]' then 'created' else 'replaced' end
    from pictures p where p.before -> 'objects' <> p.objects
    union all
    select 4, 'roles', (
        select string_agg(r.name, ', ' order by r.number) from unnest(%(roles)s::text[]) with ordinality r (name, number)
        where not p.before -> 'roles' ? r.name
    ) from pictures p
    union all
    select 5, 'hops', (
        select string_agg(h.name || ' ' || case
            when not p.before -> 'hops' ? h.name then 'registered'
            when h.row ->> 'removed_at' is not null and p.before -> 'hops' -> h.name ->> 'removed_at' is null then 'removed'
            else 'changed'
        end, ', ' order by h.name)
        from jsonb_each(p.hops) h (name, row)
        where not p.before -> 'hops' ? h.name or exists (
            select from unnest({_KEPT}) k (name) where h.row -> k.name is distinct from p.before -> 'hops' -> h.name -> k.name
        ) or (h.row ->> 'removed_at' is null) <> (p.before -> 'hops' -> h.name ->> 'removed_at' is null)
    ) from pictures p
    union all
    select 6, 'rights', (
        select string_agg(r.name, ' and ' order by r.name) || ' revoked from PUBLIC'
        from jsonb_array_elements_text(p.before -> 'public_rights') r (name)
        where not p.public_rights ? r.name
    ) from pictures p
    union all
    select 7, s.name, case when (p.settings ->> s.name)::boolean then 'switched on' else 'switched off' end
    from pictures p, unnest(%(switches)s::text[]) s (name)
    where coalesce(p.before -> 'settings' ->> s.name, 'false') <> p.settings ->> s.name
    union all
    select 8, s.name, 'stays on: relaybox.yaml does not have it. To switch it off, write ' || s.name || ': false'
    from pictures p, unnest(%(absent)s::text[]) s (name) where (p.settings ->> s.name)::boolean
    union all
    select 9, 'durability', p.settings ->> 'durability' from pictures p
    where coalesce(p.before -> 'settings' ->> 'durability', 'server') <> p.settings ->> 'durability'
    union all
    select 14, 'schema checks', 'topic ' || t.topic || ': outbox ' || t.outbox || ', first_hop ' || t.first_hop
        || ', versions 1 to ' || t.newest_version
    from relaybox_internal.checked_topic t, pictures p
    where not p.before -> 'checks' @> jsonb_build_array(to_jsonb(t))
    union all
    select 14, 'schema checks', 'topic ' || (b ->> 'topic') || ' is checked no more'
    from pictures p, jsonb_array_elements(p.before -> 'checks') b
    where b ->> 'topic' not in (select t.topic from relaybox_internal.checked_topic t)
    union all
    select 10, 'repaired', d.defect from pictures p, jsonb_array_elements_text(p.before -> 'defects') d (defect)
    union all
    select 11, 'rights', 'revoked ' || (b ->> 1) from pictures p, jsonb_array_elements(p.before -> 'rights') b
    where not exists (select from jsonb_array_elements(p.rights) a where a ->> 0 = b ->> 0 or a ->> 1 = b ->> 1)
    union all
    select 12, 'rights', 'every login of the server has ' || (
        select string_agg(r.name, ' and ' order by r.name) from jsonb_array_elements_text(p.public_rights) r (name)
    ) || ' on the database. To revoke it, see docs/logins.md, Logins without a grant' from pictures p
    union all
    select 13, 'hop ' || o.hop,
        'is in no route any more. Its undelivered messages are kept. To count or discard them: relaybox retire ' || o.hop
    from relaybox_internal.hop_out o where o.hop <> all(%(hops)s::text[]) and o.retired_at is null
    union all
    select 15, 'hop ' || o.hop, u.told || '. {OLDER_FILE}'
    from pictures p
    cross join lateral jsonb_each(p.before -> 'hops') b (name, row)
    cross join lateral jsonb_populate_record(null::relaybox_internal.hop_out, b.row) o
    cross join lateral relaybox_internal.hop_in_use(o) u
    where right(b.name, 4) = ' out' and o.hop <> all(%(hops)s::text[])
)
select string_agg('store ' || %(store)s || ': ' || l.what || ': ' || l.told, e'\\n' order by l.number, l.what, l.told) as report
from lines l where l.told <> ''
"""  # noqa: S608


def ask_report(session: Statements, store: Store, routes: Routes, roles: Sequence[str]) -> None:
    """The last statement of the transaction: its result is printed after the commit (psql keeps it as relaybox_report)."""
    session.value(
        _REPORT,
        {
            "tables": name_tables(),
            "roles": list(roles),
            "switches": list(SWITCHES),
            "absent": [one for one in SWITCHES if getattr(store, one) is None],
            "hops": [hop.name for hop in routes.hops if hop.source == store],
            "store": store.name,
        },
    )
