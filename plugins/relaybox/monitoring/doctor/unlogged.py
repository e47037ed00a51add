"""Tables and sequences of a store that a crash of the server would empty or reset, because they are unlogged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, ok


class _Unlogged(NamedTuple):
    """`refers_to`: the tables of its foreign keys, which must be logged before it."""

    name: str
    kind: str
    refers_to: list[str]


_UNLOGGED = """
with recursive tables as ( -- with what is read as a part of them, wherever it lies
    select c.oid from pg_class c where c.relnamespace in (to_regnamespace('relaybox'), to_regnamespace('relaybox_internal'))
    union
    select i.inhrelid from tables t join pg_inherits i on i.inhparent = t.oid
)
select c.oid::regclass::text as name, case c.relkind when 'S' then 'sequence' else 'table' end as kind,
    array(
        select distinct f.confrelid::regclass::text from pg_constraint f
        where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid
    ) as refers_to
from pg_class c join tables o on o.oid = c.oid
where c.relkind in ('r', 'S') and c.relpersistence = 'u'
    and not exists ( -- the sequence of an identity column is altered with its table
        select from pg_depend d join pg_class t on t.oid = d.refobjid
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i' and t.relpersistence = 'u'
    )
order by 1
"""


def check_unlogged(examined: Examined) -> Iterator[Diagnosis]:
    """A crash of the server empties no table of the store."""
    found = examined.session.rows(_Unlogged, _UNLOGGED)
    if not found:
        yield ok("No table or sequence of the store is unlogged.")
        return
    names = ", ".join(one.name for one in found)
    statements = "; ".join(f"alter {one.kind} {one.name} set logged" for one in _in_order(found))
    yield error(
        f"A crash of the server empties what is unlogged, and a standby has none of it: {names}. Hops confirm nothing that is in it.",
        f"As the owner of the schema: {statements};",
    )


def _in_order(found: Sequence[_Unlogged]) -> Iterator[_Unlogged]:
    """A logged table may not refer to an unlogged one: those that are referred to come first."""
    left = {one.name: one for one in found}
    while left:
        ready = [one for one in left.values() if left.keys().isdisjoint(one.refers_to)]
        for one in ready or list(left.values()):
            yield left.pop(one.name)
