"""What others have put on the tables of a store: extensions, triggers, rules, policies, constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, ok, warning


class _Object(NamedTuple):
    what: str
    effect: str
    drop: str


_OBJECTS = """
with ours as (
    select c.oid, c.oid::regclass::text as name, c.relrowsecurity, (n.nspname, c.relname) = ('relaybox', 'outbox') as is_outbox
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('relaybox', 'relaybox_internal') and c.relkind in ('r', 'p', 'v')
)
select format('Trigger %%I is on %%s', t.tgname, o.name) as what, 'it can change or refuse what is written' as effect,
    format('drop trigger %%I on %%s', t.tgname, o.name) as drop
from pg_trigger t join ours o on o.oid = t.tgrelid
where not t.tgisinternal and t.tgparentid = 0
    and not exists ( -- of a sealed segment, and of schema_checks; Relaybox has no other
        select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where p.oid = t.tgfoid and n.nspname = 'relaybox_internal' and p.proname in ('refuse_late_row', 'refuse_payload')
    )
union all
select format('Rule %%I is on %%s', w.rulename, o.name), 'it rewrites statements',
    format('drop rule %%I on %%s', w.rulename, o.name)
from pg_rewrite w join ours o on o.oid = w.ev_class where w.rulename <> '_RETURN'
union all
select format('Policy %%I is on %%s', p.polname, o.name), 'it hides or refuses rows',
    format('drop policy %%I on %%s', p.polname, o.name)
from pg_policy p join ours o on o.oid = p.polrelid
where not o.is_outbox or p.polname not in ('role_is_bound_to_sender', 'sent_rows_can_be_returned')
union all
select format('Row security is on for %%s, without a policy of Relaybox', o.name), 'it hides rows from all but the owner',
    format('alter table %%s disable row level security', o.name)
from ours o
where o.relrowsecurity and not exists (
    select from pg_policy p
    where p.polrelid = o.oid and o.is_outbox
        and p.polname in ('role_is_bound_to_sender', 'sent_rows_can_be_returned') -- the check `tables` compares them
)
union all
select format('Constraint %%I of %%s refers to %%s', f.conname, f.conrelid::regclass, o.name), 'retention can not drop rows',
    format('alter table %%s drop constraint %%I', f.conrelid::regclass, f.conname)
from pg_constraint f join ours o on o.oid = f.confrelid
where f.contype = 'f' and f.conparentid = 0 and not exists (select from ours own where own.oid = f.conrelid)
order by 1
"""


def check_foreign_objects(examined: Examined) -> Iterator[Diagnosis]:
    """Nothing on our tables changes what is written or read."""
    found = examined.session.rows(_Object, _OBJECTS, {})
    for one in found:
        yield warning(f"{one.what}: {one.effect}.", f"{one.drop};")
    if not found:
        yield ok("No trigger, rule, policy or foreign key of others is on a table of the store.")


class _Extension(NamedTuple):
    name: str
    version: str
    is_inside: bool


def check_extensions(examined: Examined) -> Iterator[Diagnosis]:
    """No extension lives in our schemas: the next upgrade could meet its objects."""
    extensions = examined.session.rows(
        _Extension,
        """
        select quote_ident(e.extname) as name, e.extversion as version, n.nspname in ('relaybox', 'relaybox_internal') as is_inside
        from pg_extension e join pg_namespace n on n.oid = e.extnamespace order by 1
        """,
    )
    inside = [one for one in extensions if one.is_inside]
    for one in inside:
        yield warning(
            f"Extension {one.name} {one.version} is installed in a schema of Relaybox.",
            f"alter extension {one.name} set schema public; or drop it and create it again there.",
        )
    if not inside:
        yield ok(f"Extensions: {', '.join(f'{one.name} {one.version}' for one in extensions) or 'none'}.")
