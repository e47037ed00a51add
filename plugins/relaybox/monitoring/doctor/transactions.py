"""Transactions that are open for long, and prepared ones: they hide messages and hold back vacuum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, ok, warning
from relaybox.monitoring.doctor.numbers import show_duration

_SHOWN = 5


class _Open(NamedTuple):
    pid: int
    login: str
    application: str
    state: str
    seconds: float


_OPEN = """
select a.pid, coalesce(a.usename::text, '?') as login, coalesce(nullif(a.application_name, ''), 'without a name') as application,
    coalesce(a.state, '?') as state, extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type is distinct from 'autovacuum worker'
    and a.xact_start not between clock_timestamp() - make_interval(secs => %s) and clock_timestamp()
order by a.xact_start
"""


def check_open_transactions(examined: Examined) -> Iterator[Diagnosis]:
    """No transaction of the database is open for long."""
    server = examined.server
    found = examined.session.rows(_Open, _OPEN, examined.open_seconds)
    for number, one in enumerate(found[:_SHOWN], start=1):
        younger = len(found) - number if number == _SHOWN else 0
        yield warning(
            f"A transaction {_show_age(one.seconds, 'is open')}: process {one.pid}, login {one.login}, "
            f"application {one.application}, {one.state}. Messages that it sent are invisible, and vacuum waits for it."
            + (f" {younger} younger ones are open too." if younger else ""),
            f"Let the application commit or roll back. Or end its session: select pg_terminate_backend({one.pid});",
        )
    if not found and server.reads_all_stats:
        yield ok(f"No transaction is open for more than {show_duration(examined.open_seconds)}.")
    elif not found:
        yield ok(
            f"No transaction of login {server.login} is open for more than {show_duration(examined.open_seconds)}; "
            "those of other logins are hidden from it (check login)."
        )


def _show_age(seconds: float, what: str) -> str:
    """As `is open for 3 h`. A beginning in the future is wrong, and the age not known."""
    if seconds >= 0:
        return f"{what} for {show_duration(seconds)}"
    return f"{what} for an unknown time: by the server's clock, which was set back, it begins in {show_duration(-seconds)}"


class _Prepared(NamedTuple):
    gid: str
    owner: str
    seconds: float


_PREPARED = """
select quote_literal(p.gid) as gid, p.owner::text as owner, extract(epoch from clock_timestamp() - p.prepared)::float8 as seconds
from pg_prepared_xacts p
where p.database = current_database() and p.prepared not between clock_timestamp() - make_interval(secs => %s) and clock_timestamp()
order by p.prepared
"""


def check_prepared_transactions(examined: Examined) -> Iterator[Diagnosis]:
    """No prepared transaction of the database was forgotten."""
    found = examined.session.rows(_Prepared, _PREPARED, examined.open_seconds)
    for one in found[:_SHOWN]:
        yield warning(
            f"Transaction {one.gid} of {one.owner} {_show_age(one.seconds, 'is prepared')}, and not ended. It keeps its locks, "
            "also through a restart.",
            f"As {one.owner}: commit prepared {one.gid}; or: rollback prepared {one.gid};",
        )
    if not found:
        yield ok(f"No transaction is prepared for more than {show_duration(examined.open_seconds)}.")
