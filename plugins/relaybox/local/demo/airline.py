"""The demo's application: it writes flights, and messages about them, in the same transactions.

It knows nothing of Relaybox but the outbox's table, and it may do nothing in its database but insert.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine, create_engine, insert

from relaybox.local.demo.flights import Row, flight, message_of, outbox

LARGEST_TRANSACTION = 100


class Fate(StrEnum):
    """How a transaction ends."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    SAVEPOINT_RELEASED = "savepoint released"
    SAVEPOINT_UNDONE = "savepoint undone"
    LATE = "committed late"


_PERCENTAGES = {Fate.COMMITTED: 88, Fate.ROLLED_BACK: 3, Fate.SAVEPOINT_RELEASED: 5, Fate.SAVEPOINT_UNDONE: 4}


@dataclass(frozen=True)
class Transaction:
    """One transaction: some flights, and some more after a savepoint if it has one."""

    fate: Fate
    flights: Sequence[Row]
    after_savepoint: Sequence[Row] = ()

    @property
    def committed(self) -> list[Row]:
        if self.fate is Fate.ROLLED_BACK:
            return []
        return [*self.flights, *(() if self.fate is Fate.SAVEPOINT_UNDONE else self.after_savepoint)]

    @property
    def flight_count(self) -> int:
        return len(self.flights) + len(self.after_savepoint)


def plan_transactions(flights: Sequence[Row], random: Random) -> Iterator[Transaction]:
    """Cuts flights into transactions of 1 to 100, each with its fate; what is rolled back never happens."""
    first = 0
    while first < len(flights):
        some = flights[first : first + random.randint(1, LARGEST_TRANSACTION)]
        first += len(some)
        yield _plan_transaction(some, random)


def _plan_transaction(flights: Sequence[Row], random: Random) -> Transaction:
    (fate,) = random.choices(list(_PERCENTAGES), list(_PERCENTAGES.values()))
    if fate in (Fate.SAVEPOINT_RELEASED, Fate.SAVEPOINT_UNDONE):
        half = len(flights) // 2
        return Transaction(fate, flights[:half], flights[half:])
    return Transaction(fate, flights)


@dataclass
class Tally:
    """The application's own record of what it did, written after the commit returned, and never from Relaybox."""

    committed: Counter[str] = field(default_factory=Counter)
    """Flights by carrier."""
    rolled_back: int = 0
    transactions: Counter[Fate] = field(default_factory=Counter)

    @property
    def committed_count(self) -> int:
        return self.committed.total()

    def enter(self, transaction: Transaction) -> None:
        self.transactions[transaction.fate] += 1
        self.committed.update(row["carrier"] for row in transaction.committed)
        self.rolled_back += transaction.flight_count - len(transaction.committed)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.committed + other.committed, self.rolled_back + other.rolled_back, self.transactions + other.transactions
        )


def open_engine(service: str, application_name: str) -> Engine:
    """The application's database, by libpq service name."""
    return create_engine("postgresql+psycopg2://", connect_args={"service": service, "application_name": application_name})


def carry_out(connection: Connection, transaction: Transaction) -> None:
    """Runs one transaction to its end; commits unless its fate is another."""
    with connection.begin() as outer:
        write_flights(connection, transaction.flights)
        if transaction.after_savepoint:
            with connection.begin_nested() as savepoint:
                write_flights(connection, transaction.after_savepoint)
                if transaction.fate is Fate.SAVEPOINT_UNDONE:
                    savepoint.rollback()
        if transaction.fate is Fate.ROLLED_BACK:
            outer.rollback()


def write_flights(connection: Connection, rows: Sequence[Row]) -> None:
    """Business rows and the messages about them, in the caller's transaction."""
    if rows:
        connection.execute(insert(flight), rows)
        connection.execute(insert(outbox), [message_of(row) for row in rows])


@dataclass(frozen=True)
class OpenTime:
    """A time in which a transaction had written its messages and not yet committed."""

    begin: datetime
    end: datetime


class LateTransaction:
    """A transaction that writes its flights at once and commits when it is told to. Rolls back if it never is."""

    def __init__(self, service: str, flights: Sequence[Row]) -> None:
        self._engine = open_engine(service, "airline late")
        self._flights = flights

    def __enter__(self) -> Self:
        self._connection = self._engine.connect()
        self._open = self._connection.begin()
        write_flights(self._connection, self._flights)
        self.written_at = datetime.now(UTC)
        return self

    def commit(self) -> OpenTime:
        """Commits; returns how long the messages were written and not committed."""
        open_time = OpenTime(self.written_at, datetime.now(UTC))
        self._open.commit()
        return open_time

    @property
    def tally(self) -> Tally:
        """What there is to record once it has committed."""
        tally = Tally()
        tally.enter(Transaction(Fate.LATE, self._flights))
        return tally

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._connection.close()
        self._engine.dispose()
