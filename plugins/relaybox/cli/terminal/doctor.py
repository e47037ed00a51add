"""The results of doctor, on a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import new_table, open_console
from relaybox.monitoring.doctor.check import CheckSeverity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.monitoring.doctor.examination import StoreReport


def show_reports(reports: Sequence[StoreReport], *, with_ok: bool) -> None:
    """Prints for each store what is not ok, the worst first; with all checks in their order if asked for."""
    console = open_console()
    order = list(CheckSeverity)
    for report in reports:
        console.print(f"{report.store}: {_counts(report)}")
        table = new_table("severity", "check", "result")
        shown = list(report.results) if with_ok else sorted(
            (result for result in report.results if result.severity is not CheckSeverity.OK),
            key=lambda result: -order.index(result.severity),
        )  # fmt: skip
        for result in shown:
            table.add_row(
                f"  {result.severity}", result.check, f"{result.what}\n{result.next_step}" if result.next_step else result.what
            )
        if shown:
            table.show_header = False
            console.print(table)


def _counts(report: StoreReport) -> str:
    """2 errors, 1 warning, 20 ok."""
    counts = Counter(result.severity for result in report.results)
    return ", ".join(
        f"{counts[severity]} {severity}{'' if severity is CheckSeverity.OK or counts[severity] == 1 else 's'}"
        for severity in reversed(CheckSeverity)
        if counts[severity]
    )
