"""The answer of `relaybox doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document
from relaybox.monitoring.doctor.check import CheckSeverity
from relaybox.monitoring.doctor.examination import worst_severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.monitoring.doctor.examination import StoreReport


class CheckResultDocument(Document):
    """What one check found in a store."""

    check: str
    """The name of the check. `connection`: the store does not answer, and later checks did not run."""
    severity: CheckSeverity
    what: str
    next_step: str
    """The statement or command that corrects it; empty where nothing is to be done."""


class StoreReportDocument(Document):
    """All that was found in one store."""

    store: str
    severity: CheckSeverity
    """The worst of its results."""
    clock_ahead_seconds: float | None
    """Of its clock against that of this machine; null: it was not read."""
    results: list[CheckResultDocument]

    @classmethod
    def of(cls, report: StoreReport) -> StoreReportDocument:
        return cls(
            store=report.store,
            severity=report.severity,
            clock_ahead_seconds=None if report.clock is None else report.clock.ahead_seconds,
            results=[CheckResultDocument.model_validate(result) for result in report.results],
        )


class DoctorDocument(Document):
    """The answer of `relaybox doctor`."""

    severity: CheckSeverity
    """The worst of all stores."""
    stores: list[StoreReportDocument]

    @classmethod
    def of(cls, reports: Sequence[StoreReport]) -> DoctorDocument:
        worst = worst_severity(report.severity for report in reports)
        return cls(severity=worst, stores=[StoreReportDocument.of(report) for report in reports])
