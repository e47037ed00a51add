"""The adopted tables of a store: whether their triggers are as `relaybox adopt` made them, and relaybox.yaml says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from relaybox.adoption.tables import differs_from_file, find_recorded, find_table, list_adopted, list_defects
from relaybox.errors import AdoptionRefused
from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, hidden, ok, warning
from relaybox.monitoring.doctor.record import may_read
from relaybox.routes.adopt_rules import split_table

if TYPE_CHECKING:
    from relaybox.routes import AdoptedTable


# not to_regclass(): it refuses a login that may not use the schema
_IS_THERE = """
select exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'relaybox_internal' and c.relname = 'adopted_table'
)
"""


def check_adopted_tables(examined: Examined) -> Iterator[Diagnosis]:
    """What is inserted into each adopted table is sent, and relaybox.yaml has the same tables with the same maps."""
    session = examined.session
    if not examined.server.has_schema:
        return
    if not session.value(_IS_THERE):
        yield ok("No table is adopted: the store is of a version that has no adopted tables.")
        return
    if not may_read(session, "adopted_table"):
        yield hidden(examined, "relaybox_internal.adopted_table")
        return
    found = [
        (error if one.stops else warning)(f"Adopted table {one.table_name}: {one.problem}.", f"{one.next_step}")
        for one in list_defects(session)
    ]
    found += _compare_with_file(examined)
    yield from found
    if not found:
        names = ", ".join(one.table_name for one in list_adopted(session))
        yield ok(f"Adopted tables: {names or 'none'}; relaybox.yaml says the same.")


def _compare_with_file(examined: Examined) -> Iterator[Diagnosis]:
    session, store = examined.session, examined.store
    for written in store.adopt:
        yield from _compare(examined, written)
    said = {(one.schema, one.table) for one in store.adopt}
    for recorded in list_adopted(session):
        name = recorded.present_name
        if not {split_table(one.replace('"', "")) for one in (name, recorded.table_name)} & said:
            yield warning(
                f"Table {name} is adopted, and relaybox.yaml has no stores.{store.name}.adopt.{name}.",
                f"Write it into the file: relaybox adopt {store.name} {name} shows the section. "
                f"Or end it: relaybox unadopt {store.name} {name}",
            )


def _compare(examined: Examined, written: AdoptedTable) -> Iterator[Diagnosis]:
    session, store = examined.session, examined.store
    recorded = find_recorded(session, written.name)
    if recorded is None:
        yield warning(
            f"relaybox.yaml has stores.{store.name}.adopt.{written.name}, and the table is not adopted: its rows are not sent.",
            f"Run: relaybox adopt {store.name} {written.name}, with --backlog to send also the rows that are there",
        )
        return
    try:
        columns = find_table(session, written.name).columns
    except AdoptionRefused:
        return  # that it is gone or has another name is a defect already
    if differs_from_file(store, recorded, columns, written):
        yield warning(
            f"relaybox.yaml says another map or on_unmapped of table {written.name} than the store has; the store's is used.",
            f"Run: relaybox adopt {store.name} {written.name}",
        )
