"""The tables of a store: made from `sql/tables`, or brought up to date by the migrations that it has not had.

`sql/tables` has the tables as they are now, and their comments. A new store gets them at once. A
store of an earlier version gets the numbered files of `sql/migrations`, each of them once. Both end
with the same tables (tests/upgrades), so a change of a table is a change of both directories.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.stores.schema import sql_files
from relaybox.stores.schema.stronger_logins import refuse_stronger_login

if TYPE_CHECKING:
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

sql_directory = sql_files.sql_directory

COMMAND_ROW, TRANSACTION_ROW = 1, 2
"""Which row of relaybox.migration an init locks: for all of its stores, over several transactions of other sessions; and in each of those
transactions.

Each store has had these two since its first init, and nothing ever changes them.
"""


@dataclass(frozen=True)
class Migration:
    """One numbered file of sql/migrations."""

    number: int
    name: str
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def phase(self) -> str:
        """`pre`: code of the previous version can run beside it and after it. `post`: it cannot.

        Raises ValueError if the first line of the file does not say it.
        """
        first = self.text.split("\n", 1)[0]
        if (found := re.fullmatch("-- (pre|post): .+", first)) is None:
            raise ValueError(f"{self.path}: its first line must be `-- pre: WHY` or `-- post: WHY`, not: {first}")
        return found[1]

    def __str__(self) -> str:
        return f"{self.number:04d} {self.name}"


def read_migrations() -> tuple[Migration, ...]:
    """All migrations in the order of their numbers, which may have gaps."""
    paths = sorted((sql_directory() / "migrations").glob("*.sql"))
    return tuple(Migration(int(path.stem.split("_", 1)[0]), path.stem.split("_", 1)[1], path) for path in paths)


def newest_migration() -> Migration:
    """Its number is the schema version of this code."""
    return read_migrations()[-1]


def name_tables() -> str:
    """What an init of an empty database applies in place of migrations, as it tells it."""
    return f"tables of version {newest_migration().number:04d}"


def oldest_version() -> int:
    """The schema version of the oldest stores that this code upgrades."""
    return read_migrations()[0].number - 1


def phases_migration() -> Migration:
    """The migration that records phases."""
    return next(migration for migration in read_migrations() if migration.name == "phases")


def list_pending(session: StoreSession) -> list[Migration]:
    """The migrations that the store has not had; none of a database without a store.

    Raises StoreUnusable for a store that is too old.
    """
    if session.value(f"select {_IS_NEW}"):
        return []
    refuse_too_old(session)
    applied: set[int] = set(session.values("select number from relaybox.migration"))
    return [migration for migration in read_migrations() if migration.number not in applied]


def refuse_too_old(session: Statements) -> None:
    """Raises StoreUnusable for a store that this code does not upgrade; there must be a store."""
    oldest = oldest_version()
    session.refuse(
        """
        select 'its schema is version ' || coalesce(max(number), 0) || %(upgrades)s as told, %(next_step)s as next_step
        from relaybox.migration having not coalesce(bool_or(number = %(oldest)s), false)
        """,
        {
            "oldest": oldest,
            "upgrades": f". This Relaybox upgrades stores from version {oldest} on.",
            "next_step": f"Run `relaybox init` of an earlier Relaybox, one whose schema is version {oldest} to "
            f"{newest_migration().number}, and then this one.",
        },
        kind=errors.StoreUnusable,
    )


def list_migrations() -> str:
    """The value of the setting relaybox_init.migrations (sql/init/lock_relations.sql)."""
    return json.dumps(
        [[one.number, one.name, one.phase, sorted(set(_RELATION.findall(one.text)))] for one in read_migrations()],
        separators=(",", ":"),
    )


_RELATION = re.compile(r"\brelaybox(?:_internal)?\.([a-z_0-9]+)")


def apply_migrations(session: Statements) -> list[str]:
    """Makes the tables of a new store, or applies what is pending; returns what it did. In the session's transaction."""
    done = [session.when(f"select {_IS_NEW}", do=lambda: _make_tables(session))]
    done += [session.when(_IS_PENDING, one.number, do=functools.partial(_apply, session, one)) for one in read_migrations()]
    _record_phases(session)
    return [one for one in done if one is not None]


_IS_PENDING = "select not exists (select from relaybox.migration where number = %s)"


def _apply(session: Statements, migration: Migration) -> str:
    session.execute(migration.text)
    session.execute(
        "insert into relaybox.migration (number, name) values (%s, %s)",
        *(migration.number, migration.name),
    )
    return f"{migration} ({migration.phase})"


def read_table_comments(directory: Path) -> str:
    """The statements `comment on` of sql/tables, which init repeats whenever one of them changed."""
    tables = "\n".join(path.read_text() for path in _table_files(directory))
    return "\n".join(re.findall(r"^comment on .*?;$", tables, re.MULTILINE | re.DOTALL))


_IS_NEW = "to_regclass('relaybox.migration') is null"


def _make_tables(session: Statements) -> str:
    session.when("select to_regnamespace('relaybox') is null", do=lambda: session.execute("create schema relaybox"))
    session.when("select to_regnamespace('relaybox_internal') is null", do=lambda: session.execute(_MAKE_INTERNAL_SCHEMA))
    refuse_stronger_login(session)  # another role may have made a schema just before
    for path in _table_files(sql_directory()):
        session.execute(path.read_text())
    migrations = read_migrations()
    session.execute(
        """
        insert into relaybox.migration (number, name)
        select number, 'tables' as name from generate_series(1, %s) number
        union all
        select * from unnest(%s::integer[], %s::text[])
        """,
        oldest_version(),
        [one.number for one in migrations],
        [one.name for one in migrations],
    )
    return name_tables()


_MAKE_INTERNAL_SCHEMA = """
do $$
begin
    execute format(
        'create schema relaybox_internal authorization %s',
        (select n.nspowner::regrole from pg_namespace n where n.nspname = 'relaybox')
    );
end
$$
"""


def _record_phases(session: Statements) -> None:
    """The rows that inits lock stay as they are; a later `post` migration stands for them."""
    harmless = [
        one.number for one in read_migrations() if one.phase == "pre" and one.number not in (COMMAND_ROW, TRANSACTION_ROW)
    ]
    session.execute("update relaybox.migration set phase = 'pre' where number = any(%s) and phase = 'post'", harmless)


def _table_files(directory: Path) -> list[Path]:
    return sorted((directory / "tables").glob("*.sql"))
