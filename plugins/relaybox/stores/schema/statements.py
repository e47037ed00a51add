"""What the code of an init needs of a session: statements, and decisions that are made by the store.

Two classes have it: StoreSession (stores.sessions.store_session) runs each statement, and Script (stores.init.psql_script) writes it down
for psql. So the code between statements decides nothing by the state of the store: where that matters it gives a condition, or a query that
finds refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from relaybox import errors

Result = TypeVar("Result")


class Statements(Protocol):
    """One transaction of a store."""

    @property
    def store(self) -> str:
        """The store's name in relaybox.yaml."""

    def execute(self, query: str, *arguments: object) -> int:
        """Runs a statement without a result, or several without arguments; returns how many rows it touched."""

    def value(self, query: str, *arguments: object) -> Any:
        """The result of a query that gives one row of one column. Only reports may depend on it."""

    def call(self, function: str, *arguments: object) -> Any:
        """As value(), of a function."""

    def when(self, condition: str, *arguments: object, do: Callable[[], Result]) -> Result | None:
        """Calls `do` where the query gives true; its result, else None."""

    def refuse(self, query: str, *arguments: object, kind: type[errors.RelayboxError]) -> None:
        """Raises an error of this kind if the query gives a row: what is wrong (`told`), and what to do (`next_step`)."""

    def set_local(self, settings: Mapping[str, str]) -> None:
        """Sets these until the end of the transaction."""
