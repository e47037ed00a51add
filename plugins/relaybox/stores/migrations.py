"""The tables of a store: made from `sql/tables`, or brought up to date by the migrations that it has not had.

`sql/tables` has the tables as they are now, and their comments. A new store gets them at once. A
store of an earlier version gets the numbered files of `sql/migrations`, each of them once. Both end
with the same tables (tests/upgrades), so a change of a table is a change of both directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.stores.init_locks import COMMAND_ROW, TRANSACTION_ROW

if TYPE_CHECKING:
    from relaybox.stores.sessions import StoreSession


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


def sql_directory() -> Path:
    """`sql/` of the checkout, or the copy inside the installed wheel."""
    packaged = Path(str(resources.files("relaybox"))) / "sql"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "sql"


def read_migrations() -> tuple[Migration, ...]:
    """All migrations in the order of their numbers, which may have gaps."""
    paths = sorted((sql_directory() / "migrations").glob("*.sql"))
    return tuple(Migration(int(path.stem.split("_", 1)[0]), path.stem.split("_", 1)[1], path) for path in paths)


def newest_migration() -> Migration:
    """Its number is the schema version of this code."""
    return read_migrations()[-1]


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
    if _is_new(session):
        return []
    applied: set[int] = set(session.values("select number from relaybox.migration"))
    if (oldest := oldest_version()) not in applied:
        raise errors.StoreUnusable(
            f"store {session.store}: its schema is version {max(applied)}. "
            f"This Relaybox upgrades stores from version {oldest} on.",
            next_step=f"Run `relaybox init` of an earlier Relaybox, one whose schema is version {oldest} to "
            f"{newest_migration().number}, and then this one.",
        )
    return [migration for migration in read_migrations() if migration.number not in applied]


def apply_migrations(session: StoreSession) -> Iterator[str]:
    """Makes the tables of a new store, or applies what is pending; tells what it did. In the session's transaction."""
    if _is_new(session):
        yield _make_tables(session)
        return
    pending = list_pending(session)
    for migration in pending:
        session.execute(migration.text)
        session.execute(
            "insert into relaybox.migration (number, name) values (%s, %s)",
            *(migration.number, migration.name),
        )
        yield f"{migration} ({migration.phase})"
    if pending:
        _record_phases(session)


def read_table_comments(directory: Path) -> str:
    """The statements `comment on` of sql/tables, which init repeats whenever one of them changed."""
    tables = "\n".join(path.read_text() for path in _table_files(directory))
    return "\n".join(re.findall(r"^comment on .*?;$", tables, re.MULTILINE | re.DOTALL))


def _is_new(session: StoreSession) -> bool:
    return bool(session.value("select to_regclass('relaybox.migration') is null"))


def _make_tables(session: StoreSession) -> str:
    if session.value("select to_regnamespace('relaybox') is null"):
        session.execute("create schema relaybox")
    if session.value("select to_regnamespace('relaybox_internal') is null"):
        owner = session.value("select nspowner::regrole::text from pg_namespace where nspname = 'relaybox'")
        session.execute(f"create schema relaybox_internal authorization {owner}")
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
    _record_phases(session)
    return f"tables of version {migrations[-1].number:04d}"


def _record_phases(session: StoreSession) -> None:
    """The rows that inits lock stay as they are; a later `post` migration stands for them."""
    harmless = [
        one.number for one in read_migrations() if one.phase == "pre" and one.number not in (COMMAND_ROW, TRANSACTION_ROW)
    ]
    session.execute("update relaybox.migration set phase = 'pre' where number = any(%s) and phase = 'post'", harmless)


def _table_files(directory: Path) -> list[Path]:
    return sorted((directory / "tables").glob("*.sql"))
