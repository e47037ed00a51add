"""Vacuum: whether it runs on our tables, what it has left, and how near the end of the transaction numbers is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.amounts import amount
from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, ok, warning

MANY_DEAD_ROWS = 20_000

NEAR_AGE, LAST_AGE = 1_000_000_000, 1_800_000_000
"""Of the oldest row. Postgres takes no more writes at 2,000,000,000."""

_SWITCHED_OFF = """
select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('relaybox', 'relaybox_internal') and c.relkind = 'r' and exists (
    select from pg_options_to_table(c.reloptions) o where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean
)
order by 1
"""


def check_autovacuum(examined: Examined) -> Iterator[Diagnosis]:
    """Autovacuum is on, and on for our tables."""
    off = examined.session.values(
        "select s.name from pg_settings s where s.name in ('autovacuum', 'track_counts') and s.setting = 'off' order by 1"
    )
    tables = examined.session.values(_SWITCHED_OFF)
    if off:
        yield warning(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: dead rows are never removed, and queries become slow.",
            f"As a superuser: {'; '.join(f'alter system set {name} = on' for name in off)}; select pg_reload_conf();",
        )
    if tables:
        yield warning(
            f"Autovacuum is off for {', '.join(tables)}.",
            "; ".join(f"alter table {table} reset (autovacuum_enabled)" for table in tables) + ";",
        )
    if not off and not tables:
        yield ok("Autovacuum is on, also for every table of the store.")


class _Table(NamedTuple):
    name: str
    dead: int
    live: int


_DEAD = """
select c.oid::regclass::text as name, pg_stat_get_dead_tuples(c.oid) as dead, pg_stat_get_live_tuples(c.oid) as live
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('relaybox', 'relaybox_internal') and c.relkind = 'r'
    and pg_stat_get_dead_tuples(c.oid) > greatest(%s, pg_stat_get_live_tuples(c.oid))
order by 2 desc
"""


def check_dead_rows(examined: Examined) -> Iterator[Diagnosis]:
    """No table of the store has more dead rows than others."""
    found = examined.session.rows(_Table, _DEAD, MANY_DEAD_ROWS)
    for table in found:
        yield warning(
            f"Table {table.name} has {amount(table.dead, 'dead row')} and {amount(table.live, 'other')}.",
            f"End transactions that are open for long, then: vacuum (analyze) {table.name};",
        )
    if not found:
        yield ok(f"No table of the store has more than {MANY_DEAD_ROWS:,} dead rows and fewer others.")


def check_wraparound(examined: Examined) -> Iterator[Diagnosis]:
    """The database is far from the end of the transaction numbers."""
    age = int(examined.session.value("select age(d.datfrozenxid) from pg_database d where d.datname = current_database()"))
    yield classify_age(age)


def classify_age(age: int) -> Diagnosis:
    """By the age of the oldest row of the database, in transactions."""
    said = f"The oldest row of the database is {age:,} transactions old; Postgres takes no more writes at 2,000,000,000."
    if age < NEAR_AGE:
        return ok(said)
    grade = error if age > LAST_AGE else warning
    return grade(
        said, "End transactions that are open for long and drop unused replication slots, then as a superuser: vacuum (freeze);"
    )
