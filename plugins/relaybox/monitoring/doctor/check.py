"""One check of a store: what it is given, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.monitoring.doctor.clocks import ClockReading
    from relaybox.monitoring.doctor.record import StoreRecord
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


class CheckSeverity(StrEnum):
    """How bad the result of a check is."""

    OK = "ok"
    NOTICE = "notice"  # worth knowing; nothing has to be done
    WARNING = "warning"  # messages are safe, but it will cause trouble
    ERROR = "error"  # the store can't be used, or messages are in danger


@dataclass(frozen=True)
class Diagnosis:
    """What a check found.

    Attributes:
        what: with numbers, as sentences.
        next_step: the statement or command that corrects it; empty where nothing is to be done.
    """

    severity: CheckSeverity
    what: str
    next_step: str = ""


@dataclass(frozen=True)
class ServerFacts:
    """What several checks need to know; `login` and `database` as SQL writes their names.

    Attributes:
        moves_nothing: the login has roles of Relaybox that watch, send or read, and neither the driver's nor the owner's rights. It
            lacks rights on purpose: what it may not see is a notice, not an error.
    """

    version: int
    is_standby: bool
    is_superuser: bool
    reads_all_stats: bool
    has_schema: bool
    moves_nothing: bool
    login: str
    database: str


@dataclass(frozen=True)
class Examined:
    """A store that is examined.

    Attributes:
        session: in a transaction that only reads; what a check leaves open is rolled back after it.
        record: the rules of the store; None: there is no store, or the login may not read it.
        clock: the server's clock against that of this machine.
        open_seconds: transactions that are open for longer are reported.
    """

    session: StoreSession
    store: Store
    routes: Routes
    server: ServerFacts
    record: StoreRecord | None
    clock: ClockReading
    open_seconds: float


Check = Callable[[Examined], Iterable[Diagnosis]]
"""Gives at least one diagnosis. Its errors are those of the session."""


def ok(what: str) -> Diagnosis:
    return Diagnosis(CheckSeverity.OK, what)


def notice(what: str, next_step: str = "") -> Diagnosis:
    return Diagnosis(CheckSeverity.NOTICE, what, next_step)


def warning(what: str, next_step: str) -> Diagnosis:
    return Diagnosis(CheckSeverity.WARNING, what, next_step)


def error(what: str, next_step: str) -> Diagnosis:
    return Diagnosis(CheckSeverity.ERROR, what, next_step)


def hidden(examined: Examined, table: str) -> Diagnosis:
    """The result of a check that would have to read a table that the login may not read."""
    login = examined.server.login
    if examined.server.moves_nothing:
        return notice(
            f"Not known to login {login}, which may not read {table}.", "Run doctor as the login of the tasks, or as the owner."
        )
    return error(
        f"Login {login} may not read {table}.",
        f"{grant_role('relaybox_driver', login)} if tasks use it. "
        f"{grant_role('relaybox_viewer', login)} if the page or the triggerer does.",
    )


def grant_role(role: str, login: str) -> str:
    """The statement that makes a login a member of a role, and who can run it: the owner of the schema need not.

    Args:
        role: of Relaybox.
        login: quoted as an identifier.
    """
    return f"As a superuser, or a role with the admin option on {role}: grant {role} to {login};"
