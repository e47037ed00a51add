"""The examination of stores: all side by side, each in one session that only reads. One that hangs keeps no other one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.monitoring.doctor.check import CheckSeverity, Diagnosis, Examined, ServerFacts
from relaybox.monitoring.doctor.checks import CHECKS, CONNECTION, STORE_CLOCKS
from relaybox.monitoring.doctor.clocks import ClockReading, compare_clocks, read_clock
from relaybox.monitoring.doctor.record import read_record
from relaybox.stores.init.server import ROLES
from relaybox.stores.opening import connect_store
from relaybox.stores.parallel_reads.deadlines import Inquiry, ask_each, current_inquiry
from relaybox.stores.schema.namespaces import IS_STORE
from relaybox.stores.schema.stronger_logins import refuse_superuser

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store

STORE_SECONDS = 20.0
"""For each store to answer all checks."""

OPEN_SECONDS = 300.0
"""A transaction that is open for longer is reported."""


@dataclass(frozen=True)
class CheckResult:
    """What one check found in a store.

    Attributes:
        next_step: the statement or command that corrects it.
        error: why the store, or the check, gave no answer; `what` has its text.
    """

    check: str
    severity: CheckSeverity
    what: str
    next_step: str
    error: errors.RelayboxError | None = field(default=None, compare=False)

    @classmethod
    def of(cls, check: str, found: Diagnosis) -> CheckResult:
        return cls(check, found.severity, found.what, found.next_step)


@dataclass(frozen=True)
class StoreReport:
    """All that was found in one store; `clock` is None where it was not read."""

    store: str
    results: tuple[CheckResult, ...]
    clock: ClockReading | None = None

    @property
    def severity(self) -> CheckSeverity:
        """The worst."""
        return worst_severity(result.severity for result in self.results)


def worst_severity(found: Iterable[CheckSeverity]) -> CheckSeverity:
    """`ok` where there is none."""
    return max(found, key=list(CheckSeverity).index, default=CheckSeverity.OK)


def examine_stores(
    stores: Sequence[Store], routes: Routes, *, seconds: float = STORE_SECONDS, open_seconds: float = OPEN_SECONDS
) -> tuple[StoreReport, ...]:
    """Runs every check on every store. Changes nothing. A store that does not answer is a result of its own.

    Args:
        stores: those to examine.
        routes: all routes.
        seconds: for each store; within an inquiry its own seconds count.
        open_seconds: transactions that are open for longer are reported.
    """
    if current_inquiry() is None:
        inquiry = Inquiry({store.service: {"service": store.service} for store in stores}, seconds)
        return inquiry.answer(lambda: examine_stores(stores, routes, open_seconds=open_seconds))
    reports = ask_each(stores, lambda store: _examine(store, routes, open_seconds), otherwise=_unanswered)
    found = [replace(reports[store], store=store.name) for store in stores]
    clocks = {report.store: report.clock for report in found if report.clock is not None}
    compared = [(store, CheckResult.of(STORE_CLOCKS, diagnosis)) for store, diagnosis in compare_clocks(routes, clocks)]
    return tuple(
        replace(report, results=(*report.results, *(result for store, result in compared if store == report.store)))
        for report in found
    )


def _unanswered(error: errors.RelayboxError) -> StoreReport:
    """Of a store without a session; the caller knows its name."""
    result = CheckResult(CONNECTION, CheckSeverity.ERROR, Exception.__str__(error), error.next_step, error)
    return StoreReport("", (result,))


def _examine(store: Store, routes: Routes, open_seconds: float) -> StoreReport:
    results: list[CheckResult] = []
    clock = None
    try:
        with closing(connect_store(store, application_name="relaybox doctor")) as opened:
            opened.connection.set_session(readonly=True)
            session = opened.doing("examining it")
            refuse_superuser(session)
            server, clock = session.row(ServerFacts, _FACTS, list(ROLES)), read_clock(session)
            record = read_record(session) if server.has_schema else None
            session.rollback()
            examined = Examined(session, store, routes, server, record, clock, open_seconds)
            for name in CHECKS:
                results += _run(name, examined)
    except errors.RelayboxError as error:
        return StoreReport(store.name, (*results, *_unanswered(error).results), clock)
    return StoreReport(store.name, tuple(results), clock)


def _run(name: str, examined: Examined) -> Iterator[CheckResult]:
    """One check, in a transaction of its own. An error that leaves the session alive is the result of this check only."""
    session = examined.session.doing(f"checking {name.replace('_', ' ')}")
    try:
        for found in CHECKS[name](replace(examined, session=session)):
            yield CheckResult.of(name, found)
    except errors.RelayboxError as error:
        if session.closed:
            raise
        what = f"It could not be checked: {Exception.__str__(error)}"
        yield CheckResult(name, CheckSeverity.ERROR, what, error.next_step, error)
    session.rollback()


_FACTS = f"""
select current_setting('server_version_num')::integer as version, pg_is_in_recovery() as is_standby, r.rolsuper as is_superuser,
    pg_has_role('pg_read_all_stats', 'usage') as reads_all_stats, {IS_STORE} as has_schema,
    {IS_STORE} and (
        select bool_or(pg_has_role(p.oid, 'usage')) and not bool_or(p.rolname = 'relaybox_driver' and pg_has_role(p.oid, 'usage'))
        from pg_roles p where p.rolname = any(%s)
    ) and not exists (
        select from pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal') and pg_has_role(n.nspowner, 'usage')
    ) as moves_nothing,
    quote_ident(current_user) as login, quote_ident(current_database()) as database
from pg_roles r where r.rolname = current_user
"""  # noqa: S608
