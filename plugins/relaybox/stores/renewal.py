"""The functions, views, grants and comments of a store, made as their files in `sql/` say, beside whatever else is in the database.

`create or replace` keeps the grants of an object and all that depends on it. Two kinds of objects only are dropped: those that an
earlier init made and that no file makes any more, and those that cannot be replaced (other parameters, result or columns).
Nothing is dropped with cascade. What depends on such an object and is not ours stops the init, and its error names it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import psycopg2
from psycopg2 import sql

from relaybox import errors
from relaybox.stores.dependents import Dependent, list_dependents
from relaybox.stores.migrations import read_table_comments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from relaybox.stores.sessions import StoreSession

_CANT_REPLACE = ("42P13", "42P16")
"""invalid_function_definition, invalid_table_definition: other parameters, another result, other columns."""

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
    def digest(self) -> str:
        return _digest(self.text)


@dataclass(frozen=True)
class _Installed:
    """An object of ours in the store: how DROP names it, and the digest of the file that made it."""

    identity: str
    digest: str


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
    files = {file.key: file for file in read_files(directory)}
    grants, comments = (directory / "grants.sql").read_text(), read_table_comments(directory)
    renewal = _Renewal(session, files)
    renewal.recognise()
    renewal.due.extend(key for key, file in files.items() if renewal.digest_of(key) != file.digest)
    gone = [key for key in renewal.installed if key not in files]
    do_texts_differ = renewal.digest_differs(_digest(grants + comments))
    if not (renewal.due or gone or do_texts_differ):
        return False
    if do_texts_differ:
        session.execute(comments)  # they lock tables: before anything that a running transaction may wait for
    session.execute("set local check_function_bodies = off")  # they refer to each other; the files' order says nothing
    renewal.make_all()
    renewal.drop_superseded(gone)
    renewal.refuse_obstacles()
    renewal.make_all()  # what had to go with something superseded
    renewal.grant(grants, _digest(grants + comments))
    return True


def changed_files(session: StoreSession, directory: Path) -> list[Key]:
    """The functions and views that renew_functions() would make again, in a store that has a record of them."""
    if session.value("select to_regclass('relaybox_internal.installed_object') is null"):
        return [file.key for file in read_files(directory)]
    rows = session.rows(_InstalledRow, "select * from relaybox_internal.installed_object")
    made = {(one.kind, one.name): one.digest for one in rows}
    return [file.key for file in read_files(directory) if made.get(file.key) != file.digest]


class _InstalledRow(NamedTuple):
    """A row of relaybox_internal.installed_object."""

    kind: str
    name: str
    identity: str
    digest: str


class _Version(NamedTuple):
    identity: str
    version: str


class _Right(NamedTuple):
    """On an object of ours, or on a column of it."""

    kind: str
    name: str
    privilege: str
    column: str | None
    grantee: str
    with_grant_option: bool


@dataclass
class _Renewal:
    """One store's renewal.

    Attributes:
        installed: what of ours is in the store.
        due: the files still to be applied, in this order.
        superseded: what no file makes any more; dropped when all files are applied.
        obstacles: why an object must be dropped, and what of others depends on it.
        rights: those on dropped objects.
    """

    session: StoreSession
    files: dict[Key, SqlFile]
    installed: dict[Key, _Installed] = field(default_factory=dict)
    due: deque[Key] = field(default_factory=deque)
    superseded: list[tuple[Key, str]] = field(default_factory=list)
    obstacles: dict[str, Sequence[Dependent]] = field(default_factory=dict)
    rights: list[_Right] = field(default_factory=list)

    def recognise(self) -> None:
        """Reads which objects are ours; in a store that has no record yet: those that have the name of a file."""
        if not self.session.value("select exists (select from relaybox_internal.installed_object)"):
            for key in self.files:
                for identity in self._versions(key):
                    self._record(key, _Installed(identity, "unknown"))
        self.session.execute(_IDENTITIES_AS_WRITTEN_HERE)
        records = self.session.rows(
            _InstalledRow,
            """
            select o.kind, o.name, o.identity, o.digest from relaybox_internal.installed_object o
            where case o.kind when 'view' then to_regclass(o.identity)::oid else to_regprocedure(o.identity)::oid end is not null
            """,
        )
        self.installed = {(one.kind, one.name): _Installed(one.identity, one.digest) for one in records}

    def digest_of(self, key: Key) -> str | None:
        """Of the file that made the object; None when it is missing."""
        return self.installed[key].digest if key in self.installed else None

    def digest_differs(self, digest: str) -> bool:
        """From that of the grants and comments that were applied last."""
        return bool(self.session.value("select grants_digest is distinct from %s from relaybox_internal.store", digest))

    def make_all(self) -> None:
        """Applies every file that is due, and those whose objects had to go with another one."""
        while self.due:
            try:
                self._make(self.files[self.due.popleft()])
            except errors.RelayboxError:
                self.refuse_obstacles()  # what could not be dropped is the reason
                raise

    def _make(self, file: SqlFile) -> None:
        before = self._versions(file.key)
        self.session.execute("savepoint one_file")
        try:
            self.session.execute(file.text)
        except errors.StoreFailed as error:
            cause = error.__cause__
            if not isinstance(cause, psycopg2.Error) or cause.pgcode not in _CANT_REPLACE or file.key not in self.installed:
                raise
            self.session.execute("rollback to savepoint one_file")
            changed = "columns" if file.kind == "view" else "parameters or result"
            if not self._drop(file.key, self.installed[file.key].identity, f"whose {changed} changed"):
                return
            self.session.execute(file.text)
        self.session.execute("release savepoint one_file")
        (identity,) = (name for name, version in self._versions(file.key).items() if before.get(name) != version)
        former = self.installed.get(file.key)
        if former is not None and former.identity != identity:
            self.superseded.append((file.key, former.identity))
        self._record(file.key, _Installed(identity, file.digest))

    def _versions(self, key: Key) -> dict[str, str]:
        """The objects of this kind and name: identity, and what differs after each `create or replace`."""
        kind, name = key
        return dict(self.session.rows(_Version, _VIEW_VERSIONS if kind == "view" else _FUNCTION_VERSIONS, name))

    def _record(self, key: Key, made: _Installed) -> None:
        self.installed[key] = made
        self.session.execute(
            """
            insert into relaybox_internal.installed_object as o (identity, kind, name, digest) values (%s, %s, %s, %s)
            on conflict (identity) do update set digest = excluded.digest, installed_at = clock_timestamp()
            """,
            *(made.identity, *key, made.digest),
        )

    def drop_superseded(self, gone: Sequence[Key]) -> None:
        """Drops what earlier files made: under another signature, or under a name that no file has any more."""
        for key in gone:
            self.superseded.append((key, self.installed.pop(key).identity))
        for key, identity in list(self.superseded):
            if (key, identity) in self.superseded:  # it may have gone with another one
                self._drop(key, identity, "which is not part of this version")

    def _drop(self, key: Key, identity: str, reason: str) -> bool:
        """Drops an object of ours, and those of ours that depend on it; notes an obstacle instead where others' do."""
        foreign: list[Dependent] = []
        found = self._closure(key, identity, foreign)
        if foreign:
            self.obstacles[f"{key[0]} {identity}, {reason}"] = list(dict.fromkeys(foreign))
            return False
        for (kind, name), one in found:
            self._keep_rights(kind, name, one)
            self.session.execute(sql.SQL(f"drop {kind} {{}}").format(sql.SQL(one)))
            self.session.execute("delete from relaybox_internal.installed_object where identity = %s", one)
        self.superseded = [one for one in self.superseded if one not in found]
        self._make_again([other for other, _ in found if other != key])
        return True

    def _closure(self, key: Key, identity: str, foreign: list[Dependent]) -> list[tuple[Key, str]]:
        """The object and what of ours depends on it, in the order of dropping. Others' dependents are added to `foreign`."""
        ours = {installed.identity: other for other, installed in self.installed.items()}
        ours |= {superseded: other for other, superseded in self.superseded}
        order: list[tuple[Key, str]] = []
        for dependent in list_dependents(self.session, key[0], identity):
            other = ours.get(dependent.identity)
            if other is None:
                foreign.append(dependent)
            else:
                order += [one for one in self._closure(other, dependent.identity, foreign) if one not in order]
        return [*order, (key, identity)]

    def _make_again(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self.installed.pop(key, None)
        self.due.extend(key for key in reversed(keys) if key in self.files and key not in self.due)

    def _keep_rights(self, kind: str, name: str, identity: str) -> None:
        self.rights += self.session.rows(
            _Right,
            """
            select %(kind)s as kind, %(name)s as name, a.privilege_type as privilege, null as "column", a.grantee::regrole::text as grantee,
                a.is_grantable as with_grant_option
            from pg_proc p, aclexplode(p.proacl) a
            where %(kind)s = 'function' and p.oid = to_regprocedure(%(identity)s) and a.grantee not in (0, p.proowner)
            union all
            select %(kind)s, %(name)s, a.privilege_type, null, a.grantee::regrole::text, a.is_grantable
            from pg_class c, aclexplode(c.relacl) a
            where %(kind)s = 'view' and c.oid = to_regclass(%(identity)s) and a.grantee not in (0, c.relowner)
            union all
            select %(kind)s, %(name)s, a.privilege_type, t.attname, a.grantee::regrole::text, a.is_grantable
            from pg_attribute t, aclexplode(t.attacl) a
            where %(kind)s = 'view' and t.attrelid = to_regclass(%(identity)s) and t.attnum > 0 and a.grantee <> 0
            """,
            {"kind": kind, "name": name, "identity": identity},
        )

    def refuse_obstacles(self) -> None:
        """Raises ObjectsInTheWay if something could not be dropped."""
        if self.obstacles:
            found = " ".join(
                f"It must drop {what}. On it depend: {'; '.join(map(str, foreign))}." for what, foreign in self.obstacles.items()
            )
            raise errors.ObjectsInTheWay(
                f"store {self.session.store}: init changed nothing. {found}",
                next_step="Drop or change these objects, run: relaybox init. Then make them again.",
            )

    def grant(self, text: str, digest: str) -> None:
        """Applies grants.sql, and gives again the rights on what was dropped, where an object of that name has been made."""
        self.session.execute(text)
        self.session.execute("update relaybox_internal.store set grants_digest = %s", digest)
        for kind, name, privilege, column, grantee, with_grant_option in self.rights:
            if (kind, name) in self.installed and (
                column is None or self._has_column(self.installed[kind, name].identity, column)
            ):
                statement = sql.SQL("grant {} {} on {} to {} {}").format(
                    sql.SQL(privilege),
                    sql.SQL("" if column is None else "({})").format(*([] if column is None else [sql.Identifier(column)])),
                    sql.SQL(f"{'function ' if kind == 'function' else ''}{self.installed[kind, name].identity}"),
                    sql.SQL(grantee),
                    sql.SQL("with grant option" if with_grant_option else ""),
                )
                self.session.execute(statement)

    def _has_column(self, view: str, column: str) -> bool:
        return bool(
            self.session.value(
                "select exists (select from pg_attribute where attrelid = to_regclass(%s) and attname = %s)",
                *(view, column),
            )
        )


_IDENTITIES_AS_WRITTEN_HERE = """
    update relaybox_internal.installed_object o set identity = found.identity
    from (
        select r.identity as recorded, (pg_identify_object(
            case r.kind when 'view' then 'pg_class'::regclass else 'pg_proc'::regclass end,
            case r.kind when 'view' then to_regclass(r.identity)::oid else to_regprocedure(r.identity)::oid end,
            0
        )).identity
        from relaybox_internal.installed_object r
    ) found
    where found.recorded = o.identity and found.identity <> o.identity
"""
"""A session with quote_all_identifiers = on recorded quoted names: by its own name an object would supersede itself."""

_VIEW_VERSIONS = """
    select (pg_identify_object('pg_class'::regclass, c.oid, 0)).identity, w.oid || ' ' || w.ctid as version
    from pg_class c join pg_rewrite w on w.ev_class = c.oid and w.rulename = '_RETURN'
    where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind = 'v' and c.relname = %s
"""

_FUNCTION_VERSIONS = """
    select (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity, p.oid || ' ' || p.ctid as version
    from pg_proc p where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and p.proname = %s
"""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
