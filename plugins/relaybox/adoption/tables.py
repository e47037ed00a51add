"""Which table is meant, and with which map: relaybox.yaml says it, or the command, or what the store has on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from relaybox import errors
from relaybox.adoption.mapping import CompleteMap, complete_map
from relaybox.routes import AdoptedTable
from relaybox.routes.adopt_rules import split_table

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession


class Table(NamedTuple):
    """A table of the database; `name` is quoted as SQL writes it."""

    oid: int
    name: str
    columns: list[str]


class RecordedTable(NamedTuple):
    """An adopted table as the store has it on record.

    Attributes:
        table_name: when it was adopted.
        waiting_count: messages that wait for the end of its backlog.
        unmapped_count: rows that can't be messages, with on_unmapped: set_aside.
        present_name: of the table that has the trigger now; `table_name` if it is gone.
    """

    adoption_id: int
    table_name: str
    mapping: Mapping[str, Any]
    on_unmapped: str
    state: str
    backlog_count: int | None
    waiting_count: int
    unmapped_count: int
    adopted_at: datetime
    adopted_by: str
    present_name: str


@dataclass(frozen=True)
class WantedAdoption:
    """What is to be: the table, its complete map, and who says so.

    Attributes:
        is_in_file: relaybox.yaml says it; else the command does, or the store's record.
    """

    table: Table
    mapping: CompleteMap
    on_unmapped: str
    is_in_file: bool


_TABLE = """
select c.oid::bigint as oid, format('%%I.%%I', n.nspname, c.relname) as name,
    array(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum)
        as columns
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s and c.relkind not in ('i', 'I', 'S', 't', 'c')
"""

_RECORDED = """
select a.adoption_id, a.table_name, a.mapping, a.on_unmapped, a.state, a.backlog_count, a.adopted_at, a.adopted_by,
    (select count(*) from relaybox_internal.adopted_row r where r.adoption_id = a.adoption_id) as waiting_count,
    (select count(*) from relaybox_internal.unmapped_row u where u.adoption_id = a.adoption_id) as unmapped_count,
    coalesce(
        (
            select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
            from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where c.oid = relaybox_internal.adopted_relation(a.adoption_id)
        ),
        a.table_name
    ) as present_name
from relaybox_internal.adopted_table a
"""

_SIMILAR = """
select string_agg(format('%%s.%%s', n.nspname, c.relname), ', ' order by n.nspname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where lower(c.relname) = lower(%s) and c.relkind in ('r', 'p') and n.nspname !~ '^pg_'
    and n.nspname not in ('relaybox', 'relaybox_internal')
"""


def list_adopted(session: StoreSession) -> list[RecordedTable]:
    """The adopted tables of a store, by name. In the session's transaction."""
    return session.rows(RecordedTable, f"{_RECORDED} order by a.table_name")


def find_table(session: StoreSession, name: str) -> Table:
    """The table of that name, as SCHEMA.TABLE.

    Raises:
        AdoptionRefused: there is none.
    """
    schema, table = split_table(name)
    found = session.row_if_any(Table, _TABLE, schema, table)
    if found is None:
        similar = session.value(_SIMILAR, table)
        raise errors.AdoptionRefused(
            f"store {session.store}: there is no table {schema}.{table}.",
            next_step=f"Did you mean {similar}?" if similar else "Name it as SCHEMA.TABLE, in the letters of the catalog.",
        )
    return found


def find_recorded(session: StoreSession, name: str) -> RecordedTable | None:
    """The adoption of a table: by the table that its trigger is on, else by the name on record."""
    schema, table = split_table(name)
    return session.row_if_any(
        RecordedTable,
        f"""
        {_RECORDED}
        left join pg_class c on c.oid = relaybox_internal.adopted_relation(a.adoption_id)
        left join pg_namespace n on n.oid = c.relnamespace
        where (n.nspname, c.relname) = (%(schema)s, %(table)s) or a.table_name = format('%%I.%%I', %(schema)s::text, %(table)s::text)
        order by (n.nspname, c.relname) = (%(schema)s, %(table)s) desc nulls last limit 1
        """,
        {"schema": schema, "table": table},
    )


def find_below(session: StoreSession, table: Table) -> list[RecordedTable]:
    """The adoptions of partitions of a table, which it takes over when it is adopted."""
    return session.rows(
        RecordedTable,
        f"{_RECORDED} where a.adoption_id in (select relaybox_internal.adoptions_below(%s::oid::regclass)) order by a.adoption_id",
        table.oid,
    )


def refuse_other_table(session: StoreSession, name: str, recorded: RecordedTable, oid: int | None) -> None:
    """Refuses to end an adoption by a name that another table has now.

    Args:
        session: of the store, in its transaction.
        name: as the command has it.
        recorded: the adoption that was found by it.
        oid: of the table that is adopted; None: it is gone.

    Raises:
        AdoptionRefused: with both tables.
    """
    named = session.row_if_any(Table, _TABLE, *split_table(name))
    if named is not None and named.oid != oid:
        raise errors.AdoptionRefused(
            f"store {session.store}: the adoption of {recorded.table_name} is of a table that is named {recorded.present_name} now, and "
            f"{named.name} is another table, which is not adopted; nothing was changed.",
            next_step=f"To end the adoption: relaybox unadopt {session.store} {recorded.present_name}",
        )


def choose_adoption(
    session: StoreSession, store: Store, name: str, *, mapped: Mapping[str, Any] | None, on_unmapped: str | None
) -> WantedAdoption:
    """What relaybox.yaml says of the table. Where it says nothing: what the command says, else what is on record, else the defaults.

    A table whose partitions are adopted has their map on record, if it is not adopted itself.

    Args:
        session: of the store.
        store: as relaybox.yaml has it.
        name: of the table.
        mapped: what `--map` says, None: nothing.
        on_unmapped: what the command says, None: nothing.

    Raises:
        AdoptionRefused: there is no such table; or its partitions are adopted with several maps, and nobody says which one is meant.
        ConfigurationError: relaybox.yaml and the command contradict each other.
    """
    table = find_table(session, name)
    written = find_written(store, name)
    if written is not None:
        return _as_written(store, table, written, mapped, on_unmapped)
    recorded = find_recorded(session, name)
    if recorded is None:
        below = find_below(session, table)
        recorded = below[0] if below else None
        if mapped is None and any(one.mapping != below[0].mapping for one in below):
            raise errors.AdoptionRefused(
                f"store {store.name}: partitions of {table.name} are adopted with several maps: "
                f"{', '.join(one.present_name for one in below)}.",
                next_step=f"Say which map is that of {table.name}: write it into relaybox.yaml, or use --map",
            )
    kept = "fail" if recorded is None else recorded.on_unmapped
    if recorded is not None and mapped is None:
        return WantedAdoption(table, recorded.mapping, on_unmapped or kept, is_in_file=False)
    return WantedAdoption(table, complete_map(mapped or {}, table.columns, store.name), on_unmapped or kept, is_in_file=False)


def find_written(store: Store, name: str) -> AdoptedTable | None:
    """What relaybox.yaml says of a table."""
    return next((one for one in store.adopt if (one.schema, one.table) == split_table(name)), None)


def _as_written(
    store: Store, table: Table, written: AdoptedTable, mapped: Mapping[str, Any] | None, on_unmapped: str | None
) -> WantedAdoption:
    wanted = WantedAdoption(table, complete_map(written.mapped, table.columns, store.name), written.on_unmapped, is_in_file=True)
    asked = replace(
        wanted,
        mapping=wanted.mapping if mapped is None else complete_map(mapped, table.columns, store.name),
        on_unmapped=on_unmapped or wanted.on_unmapped,
    )
    if asked != wanted:
        raise errors.ConfigurationError(
            f"relaybox.yaml: stores.{store.name}.adopt has {written.name}, and the command says something else.",
            next_step=f"Change relaybox.yaml, which decides, and run: relaybox adopt {store.name} {written.name}",
        )
    return wanted


def differs_from_file(store: Store, recorded: RecordedTable, columns: Sequence[str], written: AdoptedTable) -> bool:
    """Whether relaybox.yaml says something else of a table than the store has on record."""
    complete = complete_map(written.mapped, columns, store.name)
    return (complete, written.on_unmapped) != (recorded.mapping, recorded.on_unmapped)


class AdoptedTableState(NamedTuple):
    """How an adopted table is. `problems`: what differs from what `relaybox adopt` made, each with what to do."""

    table_name: str
    state: str
    waiting_count: int
    unmapped_count: int
    adopted_at: datetime
    problems: tuple[str, ...]


class AdoptionDefect(NamedTuple):
    """A row of relaybox_internal.list_adoption_defects(). `stops`: rows are inserted and not sent, or their insert fails."""

    adoption_id: int
    table_name: str
    kind: str
    stops: bool
    problem: str
    next_step: str


def list_defects(session: StoreSession) -> list[AdoptionDefect]:
    """What is not with the adopted tables of a store as `relaybox adopt` made it. In the session's transaction."""
    return session.rows(AdoptionDefect, "select * from relaybox_internal.list_adoption_defects()")


def read_adopted(session: StoreSession) -> tuple[AdoptedTableState, ...]:
    """The adopted tables of a store as `relaybox status` shows them. In the session's transaction."""
    adopted = list_adopted(session)
    defects = list_defects(session) if adopted else []
    return tuple(
        AdoptedTableState(
            *(one.table_name, one.state, one.waiting_count, one.unmapped_count, one.adopted_at),
            problems=tuple(f"{found.problem}. {found.next_step}" for found in defects if found.adoption_id == one.adoption_id),
        )
        for one in adopted
    )
