"""The functions, views, grants and comments of a store, made as their files in `sql/` say, beside whatever else is in the database.

`create or replace` keeps the grants of an object and all that depends on it. Two kinds of objects only are dropped: those that an
earlier init made and that no file makes any more, and those that cannot be replaced (other parameters, result or columns).
Nothing is dropped with cascade. What depends on such an object and is not ours stops the init, and its error names it.

The server does this (sql/init/renew_functions.sql), so that a script of psql can do it too (stores.init.script).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2

from relaybox import errors
from relaybox.stores.schema.functions_version import record_version
from relaybox.stores.schema.migrations import read_table_comments
from relaybox.stores.schema.object_defects import mark_altered_objects, record_definitions, repair_rights
from relaybox.stores.schema.sql_files import read_init_file

if TYPE_CHECKING:
    from pathlib import Path

    from relaybox.stores.schema.statements import Statements

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


def renew_functions(session: Statements, directory: Path, *, older: bool = False) -> bool:
    """Applies the files that changed since the last init, in the session's transaction; returns whether there was any.

    Makes again what was dropped or changed by hand, and repairs the rights.

    Reads the transaction's setting relaybox_init.files (list_files()).

    Args:
        session: in the transaction.
        directory: the folder `sql`.
        older: to record this version as the one that made the functions, also after a newer one.

    Raises:
        ObjectsInTheWay: something that is not ours depends on an object that must be dropped; all of it is named.
        StoreUnusable: something belongs to a role whose rights the login lacks.
    """
    grants, comments = (directory / "grants.sql").read_text(), read_table_comments(directory)
    digest = _digest(grants + comments)

    def renew() -> bool:
        session.when(_TEXTS_DIFFER, digest, do=lambda: session.execute(comments))  # they lock tables: before what others wait for
        session.when(_FILES_DIFFER, do=lambda: _renew_files(session, read_files(directory)))
        session.execute(grants)
        session.execute("update relaybox_internal.store set grants_digest = %s", digest)
        session.execute(read_init_file("restore_rights"))
        record_definitions(session)
        record_version(session, older=older)
        return True

    mark_altered_objects(session)
    is_renewed = bool(session.when(f"{_FILES_DIFFER} or ({_TEXTS_DIFFER})", digest, do=renew))
    repair_rights(session, grants)
    return is_renewed


def _renew_files(session: Statements, files: tuple[SqlFile, ...]) -> None:
    session.set_local({file.setting: file.text for file in files})
    try:
        session.execute(read_init_file("renew_functions"))
    except errors.ObjectsInTheWay as error:
        told = error.__cause__.diag.message_primary if isinstance(error.__cause__, psycopg2.Error) else str(error)
        raise errors.ObjectsInTheWay(f"store {session.store}: {told}", next_step=error.next_step) from error.__cause__


def list_files(files: tuple[SqlFile, ...]) -> str:
    """The value of the setting relaybox_init.files."""
    return json.dumps([[file.kind, file.name, file.digest] for file in files], separators=(",", ":"))


_FILES_DIFFER = """
select exists (
    select from json_array_elements(current_setting('relaybox_init.files')::json) f
    full join (
        select o.kind, o.name, o.digest from relaybox_internal.installed_object o
        where case o.kind when 'view' then to_regclass(o.identity)::oid else to_regprocedure(o.identity)::oid end is not null
    ) made on (made.kind, made.name, made.digest) = (f ->> 0, f ->> 1, f ->> 2)
    where f is null or made.kind is null
)
"""
"""A file whose object is missing or was made of another text, or an object that no file makes any more."""

_TEXTS_DIFFER = "select s.grants_digest is distinct from %s from relaybox_internal.store s"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
