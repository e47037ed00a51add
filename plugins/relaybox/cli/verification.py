"""The command that verifies delivery: verify."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson
from relaybox.cli.readers import warn_of_readers
from relaybox.cli.usage import CommandList, Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from relaybox.routes import Route
    from relaybox.verification.results import Outcome, RouteVerification
    from relaybox.verification.route_verification import VerifyProgress

commands = CommandList()


@commands.command()
def verify(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route, as in relaybox.yaml.")],
    runner: Annotated[
        Runner,
        typer.Option("--runner", help="threads: of this process. spark. auto: Spark from limits.spark_from_rows messages on."),
    ] = Runner.THREADS,
    as_json: AsJson = False,
) -> None:
    """Verify delivery: compare the stores of a route message by message, by count and by content.

    Names every message that is missing, changed, misplaced, doubled, unexpected, or in no batch. Verifies
    the order of each stream. Changes nothing. Readers of the stream that get nothing, or less than they should, are warned of.
    Spark runs on this machine, or on the master of its configuration (SPARK_CONF_DIR). The result is the same.

    \b
    Examples:
      relaybox verify flights
      relaybox verify flights --json > verification.json
      relaybox verify flights --runner spark
    """
    from relaybox.cli.terminal.verification import show_verification, verify_bar
    from relaybox.documents.document import write
    from relaybox.documents.verification import VerificationDocument
    from relaybox.subscriptions.subscriptions import list_problems_of_route

    settings: Settings = context.obj
    routes = settings.load_routes()
    verified = routes.route(route)
    problems = list_problems_of_route(routes, verified)
    if as_json:
        verification = _verify(verified, runner)
        write(VerificationDocument.of(verification, problems))
    else:
        with verify_bar() as progress:
            verification = _verify(verified, runner, progress)
        show_verification(verification)
        warn_of_readers(problems)
    raise typer.Exit(_exit_code(verification))


def _verify(route: Route, runner: str, progress: Callable[[VerifyProgress], None] = lambda _: None) -> RouteVerification:
    """Compares by threads of this process, or by Spark; `auto` chooses by the number of messages."""
    from relaybox.cli.spark import spark_comparison
    from relaybox.verification.comparison_runners import ComparisonTooLarge
    from relaybox.verification.route_verification import verification_session, verify_route

    if runner != "spark":
        with suppress(ComparisonTooLarge):
            return verify_route(route, below_rows=route.limits.spark_from_rows if runner == "auto" else None, progress=progress)
    with spark_comparison(verification_session(route.name)) as comparison:
        return verify_route(route, runner=comparison, progress=progress)


def _exit_code(verification: RouteVerification) -> ExitCode:
    codes: dict[Outcome, ExitCode] = {
        "delivered": ExitCode.FINE,
        "set aside": ExitCode.IN_FLIGHT,
        "in flight": ExitCode.IN_FLIGHT,
        "defects": ExitCode.DEFECT_FOUND,
    }
    return codes[verification.outcome]
