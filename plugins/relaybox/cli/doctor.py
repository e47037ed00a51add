"""The command that examines stores and their connections: doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson
from relaybox.cli.usage import CommandList

commands = CommandList()


@commands.command()
def doctor(
    context: typer.Context,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="Only these stores.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show also the checks that found nothing.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", min=2, help="How long each store may take for its whole answer.")] = 20,
    open_seconds: Annotated[
        float, typer.Option("--open-seconds", min=0, help="Report transactions that are open for longer.")
    ] = 300,
    as_json: AsJson = False,
) -> None:
    """Examine stores and their connections: what is wrong, and the statement or command that corrects it. Changes nothing.

    A store that does not answer is reported; the others are examined.

    Exit codes: 0 nothing, or notices only; 3 warnings and no error; 1 errors.

    \b
    Examples:
      relaybox doctor
      relaybox doctor hub --all
      relaybox doctor --json
    """
    from relaybox.cli.terminal.doctor import show_reports
    from relaybox.documents.doctor import DoctorDocument
    from relaybox.documents.document import write
    from relaybox.monitoring.doctor.check import CheckSeverity
    from relaybox.monitoring.doctor.examination import examine_stores, worst_severity

    settings: Settings = context.obj
    routes = settings.load_routes()
    chosen = [routes.store(name) for name in dict.fromkeys(stores or routes.stores)]
    reports = examine_stores(chosen, routes, seconds=seconds, open_seconds=open_seconds)
    if as_json:
        write(DoctorDocument.of(reports))
    else:
        show_reports(reports, with_ok=every)
    codes = {CheckSeverity.ERROR: ExitCode.DEFECT_FOUND, CheckSeverity.WARNING: ExitCode.IN_FLIGHT}
    raise typer.Exit(codes.get(worst_severity(report.severity for report in reports), ExitCode.FINE))
