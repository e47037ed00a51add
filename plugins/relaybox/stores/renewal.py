"""The functions, views, grants and comments of a store, made as their files in `sql/` say, beside whatever else is in the database.

`create or replace` keeps the grants of an object and all that depends on it. Two kinds of objects only are dropped: those that an
earlier init made and that no file makes any more, and those that cannot be replaced (other parameters, result or columns).
Nothing is dropped with cascade. What depends on such an object and is not ours stops the init, and its error names it.

The server does this (sql/init/renew_functions.sql), so that a script of psql can do it too (stores.init_script).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psycopg2

from relaybox import errors
from relaybox.stores.migrations import read_table_comments

if TYPE_CHECKING:
    from pathlib import Path

    from relaybox.stores.sessions import StoreSession

Key = tuple[str, str]
"""Kind (function or view) and name."""

@dataclass(frozen=True)
class SqlFile:
    """A file that makes one function or view of the same name."""

    kind: str
    name: str
    text: str

    @property
    def key(self) -> Key:
        return self.kind, self.name

    @property
    def setting(self) -> str:
        """That renew_functions.sql reads the text from."""
        return f"relaybox_init.{self.kind}.{self.name}"

    @property
    def digest(self) -> str:
        return _digest(self.text)


def read_files(directory: Path) -> tuple[SqlFile, ...]:
    """All functions, then all views by name: a view may call functions and read the views before it."""
    return tuple(
        SqlFile(kind, path.stem, path.read_text())
        for kind in ("function", "view")
        for path in sorted((directory / f"{kind}s").rglob("*.sql"))
    )


def renew_functions(session: StoreSession, directory: Path) -> bool:
    """Applies the files that changed since the last init, in the session's transaction; tells whether there was any.

    Raises:
        ObjectsInTheWay: something that is not ours depends on an object that must be dropped; all of it is named.
    """
    files = read_files(directory)
    session.value(SET_FILES, list_files(files))
    grants, comments = (directory / "grants.sql").read_text(), read_table_comments(directory)
    digest = texts_digest(grants, comments)
    do_files_differ = session.value(f"select {FILES_DIFFER}")
    do_texts_differ = session.value(f"select {TEXTS_DIFFER}", digest)
    if not (do_files_differ or do_texts_differ):
        return False
    if do_texts_differ:
        session.execute(comments)  # they lock tables: before anything that a running transaction may wait for
    if do_files_differ:
        _renew(session, directory, files)
    session.execute(grants)
    session.execute(RECORD_TEXTS, digest)
    session.execute((directory / "init" / "restore_rights.sql").read_text())
    return True


def _renew(session: StoreSession, directory: Path, files: tuple[SqlFile, ...]) -> None:
    session.execute(
        "select pg_catalog.set_config(s.name, s.text, true) from unnest(%s::text[], %s::text[]) s (name, text)",
        *([file.setting for file in files], [file.text for file in files]),
    )
    try:
        session.execute((directory / "init" / "renew_functions.sql").read_text())
    except errors.ObjectsInTheWay as error:
        told = error.__cause__.diag.message_primary if isinstance(error.__cause__, psycopg2.Error) else str(error)
        raise errors.ObjectsInTheWay(f"store {session.store}: {told}", next_step=error.next_step) from error.__cause__


def list_files(files: tuple[SqlFile, ...]) -> str:
    """The value of the setting relaybox_init.files."""
    return json.dumps([[file.kind, file.name, file.digest] for file in files], separators=(",", ":"))


def texts_digest(grants: str, comments: str) -> str:
    """As the store records it of the grants and comments that were applied last."""
    return _digest(grants + comments)


SET_FILES = "select pg_catalog.set_config('relaybox_init.files', %s, true)"

CHANGED_FILES = """
select f ->> 0 as kind, f ->> 1 as name from json_array_elements(current_setting('relaybox_init.files')::json) f
where not exists (
    select from relaybox_internal.installed_object o
    where (o.kind, o.name, o.digest) = (f ->> 0, f ->> 1, f ->> 2)
        and case o.kind when 'view' then to_regclass(o.identity)::oid else to_regprocedure(o.identity)::oid end is not null
)
"""
"""The files whose object is missing, or was made by another text."""

FILES_DIFFER = f"""(
    exists ({CHANGED_FILES}) or exists (
        select from relaybox_internal.installed_object o
        where (o.kind, o.name) not in (
            select f ->> 0, f ->> 1 from json_array_elements(current_setting('relaybox_init.files')::json) f
        ) and case o.kind when 'view' then to_regclass(o.identity)::oid else to_regprocedure(o.identity)::oid end is not null
    )
)"""  # noqa: S608

TEXTS_DIFFER = "(select s.grants_digest is distinct from %s from relaybox_internal.store s)"

RECORD_TEXTS = "update relaybox_internal.store set grants_digest = %s"


def changed_files(session: StoreSession, directory: Path) -> list[Key]:
    """The functions and views that renew_functions() would make again; all of them in a store that has no record yet."""
    files = read_files(directory)
    if session.value("select to_regclass('relaybox_internal.installed_object') is null"):
        return [file.key for file in files]
    session.value(SET_FILES, list_files(files))
    return [(one.kind, one.name) for one in session.rows(_File, CHANGED_FILES)]


class _File(NamedTuple):
    kind: str
    name: str


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
