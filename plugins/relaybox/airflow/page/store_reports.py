"""What doctor finds in the stores, for the user of one request: the page examines a store once a minute at most, and only if asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relaybox.monitoring.doctor.check import CheckSeverity
from relaybox.monitoring.doctor.checks import CONNECTION, STORE_CLOCKS
from relaybox.monitoring.doctor.clocks import compare_clocks
from relaybox.monitoring.doctor.examination import CheckResult, StoreReport, worst_severity
from relaybox.monitoring.store_findings import next_step_after, plain_words

if TYPE_CHECKING:
    from relaybox.airflow.page.kept_answers import AgedAnswer
    from relaybox.airflow.page.permissions import Rights
    from relaybox.routes import Routes, Store

REPORT_SECONDS = 60.0
"""So long a report is shown before the store is examined anew: what doctor finds changes slowly, and costs some forty queries."""

STORE_SECONDS = 10.0
"""For a store to answer all checks."""

EXAMINERS = 4
"""Stores that are examined at once, by threads that nothing else of the page waits for."""

FIRST_REPORT_SECONDS = 2.0
"""So long a page waits for a store that was not examined yet; then it shows the others."""

NAMES_OTHERS = frozenset(
    {"adopted_tables", "endpoints", "hops", "open_transactions", "prepared_transactions", "store_name", STORE_CLOCKS}
)
"""Checks whose results can name hops, applications and stores: for those who may read every hop of the store."""

_ORDER = list(CheckSeverity)


@dataclass(frozen=True)
class VisibleReport:
    """What one user sees of a store.

    Attributes:
        results: those that are not ok, the worst first.
        is_whole: the user may read every hop of the store; for others results of NAMES_OTHERS are left out.
        age_seconds: since the store was asked.
    """

    store: str
    results: tuple[CheckResult, ...]
    ok_count: int
    is_whole: bool
    age_seconds: float
    clock_ahead_seconds: float | None

    @property
    def severity(self) -> CheckSeverity:
        return worst_severity(result.severity for result in self.results)

    @property
    def counts(self) -> Mapping[CheckSeverity, int]:
        """Of each severity, the worst first."""
        found = {severity: sum(one.severity is severity for one in self.results) for severity in reversed(_ORDER)}
        return {**{severity: count for severity, count in found.items() if count}, CheckSeverity.OK: self.ok_count}


@dataclass(frozen=True)
class VisibleReports:
    """Of the stores of the hops that the user may read, the worst first. `waiting`: stores that are being examined for the first time."""

    reports: tuple[VisibleReport, ...]
    waiting: tuple[str, ...]

    @property
    def severity(self) -> CheckSeverity:
        return worst_severity(report.severity for report in self.reports)


def reports_seen_by(rights: Rights, routes: Routes, answers: Mapping[Store, AgedAnswer[StoreReport] | None]) -> VisibleReports:
    """Asks for the user's rights on each hop; may take as long as Airflow's auth manager takes.

    Args:
        rights: the user's.
        routes: all routes.
        answers: what each store said; None: nothing yet.
    """
    readable = {hop.name for hop in routes.hops if rights.may_read(hop)}
    clocks = {
        store.name: aged.answer.clock for store, aged in answers.items() if aged is not None and aged.answer.clock is not None
    }
    compared = list(compare_clocks(routes, clocks))
    reports, waiting = [], []
    for store, aged in answers.items():
        hops = {hop.name for hop in routes.hops if store in (hop.source, hop.destination)}
        if hops.isdisjoint(readable):
            continue
        if aged is None:
            waiting.append(store.name)
            continue
        between = [CheckResult.of(STORE_CLOCKS, diagnosis) for name, diagnosis in compared if name == store.name]
        reports.append(_visible(aged, [*aged.answer.results, *between], is_whole=hops <= readable))
    reports.sort(key=lambda report: (-_ORDER.index(report.severity), report.store))
    return VisibleReports(tuple(reports), tuple(waiting))


def _visible(aged: AgedAnswer[StoreReport], results: Sequence[CheckResult], *, is_whole: bool) -> VisibleReport:
    shown = [_in_plain_words(one) for one in results if is_whole or one.check not in NAMES_OTHERS]
    worst_first = sorted(_not_ok(shown), key=lambda one: -_ORDER.index(one.severity))
    clock = aged.answer.clock
    return VisibleReport(
        store=aged.answer.store,
        results=tuple(worst_first),
        ok_count=len(shown) - len(worst_first),
        is_whole=is_whole,
        age_seconds=aged.age_seconds,
        clock_ahead_seconds=None if clock is None else clock.ahead_seconds,
    )


def _not_ok(results: Sequence[CheckResult]) -> Iterator[CheckResult]:
    return (one for one in results if one.severity is not CheckSeverity.OK)


def _in_plain_words(result: CheckResult) -> CheckResult:
    """What a server said of an error may name hosts, files and statements; the log of the API server has it."""
    if result.error is None:
        return result
    words = plain_words(result.error)
    what = f"It can't be read: {words}." if result.check == CONNECTION else f"It could not be checked: {words}."
    return replace(result, what=what, next_step=next_step_after(result.error))
