"""Commands that move messages and confirmations in this process, without Airflow: transfer, confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ExitCode, Failures, Settings
from relaybox.cli.options import AsJson
from relaybox.cli.printable import print_text
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from collections.abc import Callable

    from relaybox.hops.transfer import Progress, TransferSummary
    from relaybox.routes import Hop

commands = CommandList()


@commands.command()
def transfer(
    context: typer.Context,
    hop: Annotated[str, typer.Argument(metavar="HOP", help="The hop, as in flights/1.")],
    threads: Annotated[int, typer.Option("--threads", min=1, max=64, help="Number of slices that are copied in parallel.")] = 2,
    linger_seconds: Annotated[
        float | None,
        typer.Option(
            "--linger-seconds",
            min=0,
            help="Wait this long for more messages. Default: limits.linger_seconds.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Move the messages of one hop until none is left, in this process, without Airflow and Spark.

    Idempotent. After an interruption the next transfer resumes the open batch.

    \b
    Examples:
      relaybox transfer flights/1
      relaybox transfer flights/1 --threads 4 --linger-seconds 60
    """
    from relaybox.cli.terminal.transfer import show_transfer, transfer_bar
    from relaybox.documents.document import write
    from relaybox.documents.transfer import TransferDocument

    settings: Settings = context.obj
    moved = settings.load_routes().hop(hop)
    linger = moved.limits.linger_seconds if linger_seconds is None else linger_seconds
    if as_json:
        summary = _transfer(settings, moved, threads, linger)
        write(TransferDocument.model_validate(summary))
    else:
        with transfer_bar(moved) as progress:
            summary = _transfer(settings, moved, threads, linger, progress)
        show_transfer(summary)
    if summary.waiting_for_init is not None:
        print_text(f"warning: {summary.waiting_for_init}", stderr=True)
        raise typer.Exit(ExitCode.CONFIGURATION)


def _transfer(
    settings: Settings, hop: Hop, threads: int, linger_seconds: float, progress: Callable[[Progress], None] = lambda _: None
) -> TransferSummary:
    from relaybox.hops.runners import ThreadRunner
    from relaybox.hops.transfer import transfer_hop

    with ThreadRunner(threads) as runner:
        return transfer_hop(hop, runner, recorded_by=settings.recorded_by, linger_seconds=linger_seconds, progress=progress)


@commands.command()
def confirm(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE|HOP", help="A route (its last hop comes first), or one hop.")],
    as_json: AsJson = False,
) -> None:
    """Carry confirmations back to the source: received, processed and settled, without Airflow.

    If the stores of a hop do not answer, the other hops are still confirmed; the exit code is not 0.

    \b
    Examples:
      relaybox confirm flights
      relaybox confirm flights/2
    """
    from relaybox.cli.terminal.transfer import show_settled
    from relaybox.documents.document import write
    from relaybox.documents.transfer import ConfirmDocument, SettledHop
    from relaybox.hops.confirmations import settle_hop

    settings: Settings = context.obj
    routes = settings.load_routes()
    settled, failures = [], Failures()
    for hop in reversed(routes.hops_of(route)):
        with failures.kept(hop.name):
            settled.append(settle_hop(routes.route(hop.route), hop, recorded_by=settings.recorded_by))
    if as_json:
        write(ConfirmDocument(hops=[SettledHop.model_validate(hop) for hop in settled], errors=failures.document()))
    else:
        show_settled(settled)
    failures.end(debug=settings.debug)
