"""Sessions to a store as the rest of the code uses them: statements, their rows, and what an error of the store means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from relaybox import errors, failpoints
from relaybox.stores.sessions import connections

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection
    from psycopg2.extensions import cursor as Cursor
    from psycopg2.sql import Composable

Row = TypeVar("Row")
Result = TypeVar("Result")


class _Refusal(NamedTuple):
    told: str
    next_step: str


@dataclass(frozen=True)
class StoreSession:
    """A session of a store, and what it is used for at the moment.

    Each method raises what an error of the store means (connections.translate), as `store hub: while <activity>: ...`.
    A transaction begins with the first statement, and ends with `commit`, `commit_durably` or `rollback`.

    Rows are made by the names of their columns: `row(Head, "select batch, log_position ...")` gives a `Head(batch=..., log_position=...)`,
    where `Head` is a NamedTuple or a dataclass. Columns that it has no field for are left out. Fields without a column are given by
    keyword.
    """

    connection: Connection
    store: str
    activity: str = "using it"

    def doing(self, activity: str) -> StoreSession:
        """The same session, whose errors from here on say this."""
        return replace(self, activity=activity)

    def row(self, of: type[Row], query: str, *arguments: object, **given: object) -> Row:
        """The row of a statement that always gives one."""
        row = self.row_if_any(of, query, *arguments, **given)
        if row is None:
            raise errors.StoreFailed(f"store {self.store}: while {self.activity}: the statement gave no row.")
        return row

    def row_if_any(self, of: type[Row], query: str, *arguments: object, **given: object) -> Row | None:
        """The first row of a statement, or None."""
        with self.cursor() as cursor:
            cursor.execute(query, _parameters(arguments))
            values = cursor.fetchone()
            return None if values is None else _maker(of, cursor, given)(values)

    def rows(self, of: type[Row], query: str, *arguments: object, **given: object) -> list[Row]:
        """All rows of a statement."""
        with self.cursor() as cursor:
            cursor.execute(query, _parameters(arguments))
            make = _maker(of, cursor, given)
            return [make(values) for values in cursor.fetchall()]

    def groups_by(self, of: type[Row], key: str, query: str, *arguments: object) -> dict[Any, list[Row]]:
        """The rows of a statement by their column of this name."""
        with self.cursor() as cursor:
            cursor.execute(query, _parameters(arguments))
            make = _maker(of, cursor, {})
            at = [column.name for column in cursor.description or ()].index(key)
            groups: dict[Any, list[Row]] = {}
            for values in cursor.fetchall():
                groups.setdefault(values[at], []).append(make(values))
            return groups

    def rows_by(self, of: type[Row], key: str, query: str, *arguments: object) -> dict[Any, Row]:
        """The same, where each row has another one."""
        return {found: rows[0] for found, rows in self.groups_by(of, key, query, *arguments).items()}

    def value(self, query: str, *arguments: object) -> Any:
        """The first column of the first row of a statement; None without a row."""
        with self.cursor() as cursor:
            cursor.execute(query, _parameters(arguments))
            values = cursor.fetchone()
            return None if values is None else values[0]

    def values(self, query: str, *arguments: object) -> list[Any]:
        """The first column of all rows of a statement."""
        with self.cursor() as cursor:
            cursor.execute(query, _parameters(arguments))
            return [values[0] for values in cursor.fetchall()]

    def call(self, function: str, *arguments: object) -> Any:
        """The result of a function that returns one value, as in `call("relaybox_internal.hop_has_work", "flights/1")`."""
        return self.value(f"select {function}({', '.join(['%s'] * len(arguments))})", *arguments)

    def execute(self, query: str | Composable, *arguments: object) -> int:
        """Runs a statement and ignores its rows; returns how many rows it touched."""
        with self.cursor() as cursor:
            cursor.execute(query, _parameters(arguments))
            return cursor.rowcount

    def when(self, condition: str, *arguments: object, do: Callable[[], Result]) -> Result | None:
        """Calls `do` where the query gives true; its result, else None (stores.schema.statements)."""
        return do() if self.value(condition, *arguments) else None

    def refuse(self, query: str, *arguments: object, kind: type[errors.RelayboxError]) -> None:
        """Raises an error of this kind if the query gives a row: what is wrong (`told`), and what to do (`next_step`)."""
        refusal = self.row_if_any(_Refusal, query, *arguments)
        if refusal is not None:
            raise kind(f"store {self.store}: {refusal.told}", next_step=refusal.next_step)

    def set_local(self, settings: Mapping[str, str]) -> None:
        """Sets these until the end of the transaction, in one round trip."""
        self.execute(
            "select pg_catalog.set_config(s.name, s.value, true) from unnest(%s::text[], %s::text[]) s (name, value)",
            *(list(settings), list(settings.values())),
        )

    def commit(self, step: str | None = None) -> None:
        """Commits, as a step of the protocol with its failpoints before and after, or without."""
        with self.translating():
            if step is None:
                self.connection.commit()
            else:
                connections.commit(self.connection, step)

    def commit_durably(self, step: str) -> None:
        """Commits a step of the protocol, flushed as the store promises. Raises NotDurable (connections.commit_durably)."""
        with self.translating():
            connections.commit_durably(self.connection, step)

    def rollback(self) -> None:
        """Ends the transaction: of one that only read, that is all there is to end."""
        with self.translating():
            self.connection.rollback()

    @contextmanager
    def autocommitting(self) -> Iterator[None]:
        """Within the block each statement is a transaction, in one round trip instead of three. Begins outside any transaction."""
        with self.translating():
            self.connection.autocommit = True
            try:
                yield
            finally:
                if not self.closed:
                    self.connection.autocommit = False

    def reach(self, failpoint: str) -> None:
        """A named moment of the protocol at which a test may inject a fault."""
        with self.translating():
            failpoints.reach(failpoint, self.connection)

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """A cursor of psycopg2, for COPY, and for errors of one statement that the block itself catches."""
        with self.translating(), self.connection.cursor() as cursor:
            yield cursor

    @property
    def closed(self) -> bool:
        """Whether the session has ended, by `close` or because the connection broke."""
        return bool(self.connection.closed)

    def close(self) -> None:
        """Ends the session; what is not committed is rolled back."""
        self.connection.close()

    def translating(self) -> AbstractContextManager[None]:
        """Turns errors of psycopg2 within the block into ours, for what runs statements of its own on the connection."""
        return connections.store_errors(self.store, self.activity)


def _parameters(arguments: tuple[object, ...]) -> Any:
    """As psycopg2 takes them: one mapping for named ones, None where the statement has none and its percent signs stand for themselves."""
    if len(arguments) == 1 and isinstance(arguments[0], Mapping):
        return arguments[0]
    return arguments or None


def _maker(of: type[Row], cursor: Cursor, given: Mapping[str, object]) -> Callable[[tuple[Any, ...]], Row]:
    wanted = _fields(of)
    columns = [(index, column.name) for index, column in enumerate(cursor.description or ()) if column.name in wanted]
    return lambda values: of(**{name: values[index] for index, name in columns}, **given)


def _fields(of: Any) -> set[str]:
    """Of a NamedTuple or a dataclass."""
    return {field.name for field in fields(of)} if is_dataclass(of) else set(of._fields)
