"""The command that derives messages in this process, without Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import Settings
from relaybox.cli.options import AsJson
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.routes import Derivation, Route
    from relaybox.spark.tasks import TaskSession

commands = CommandList()


@commands.command()
def derive(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="A route with a section derive.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Call the function, show what it returns, and send nothing.")
    ] = False,
    samples: Annotated[int, typer.Option("--samples", min=0, max=1000, help="With --dry-run: messages to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Derive the messages of a route from those of a stream, until none is left, with Spark and without Airflow.

    Can be interrupted, repeated, and run twice at once: of each message of the stream one attempt publishes what it derived, or none.

    \b
    Examples:
      relaybox derive delays --dry-run
      relaybox derive delays
      relaybox derive delays --json
    """
    from relaybox.cli.spark import spark_derivation

    settings: Settings = context.obj
    derived = settings.load_routes().route(route)
    derivation = derived.require_derivation()
    with spark_derivation(f"relaybox derive {route}") as session:
        if dry_run:
            _preview(derived, derivation, session, samples, as_json=as_json)
        else:
            _derive(derived, derivation, session, settings.recorded_by, as_json=as_json)


def _preview(route: Route, derivation: Derivation, session: TaskSession, samples: int, *, as_json: bool) -> None:
    from relaybox.cli.terminal.derivations import show_preview
    from relaybox.documents.derivations import DerivationPreviewDocument
    from relaybox.documents.document import write
    from relaybox.spark.derivations.previewing import preview

    found = preview(route, derivation, session, sample_count=samples)
    if as_json:
        write(DerivationPreviewDocument.model_validate(found))
    else:
        show_preview(found)


def _derive(route: Route, derivation: Derivation, session: TaskSession, recorded_by: str, *, as_json: bool) -> None:
    from relaybox.cli.terminal.derivations import derivation_line, show_derived
    from relaybox.documents.derivations import DerivationDocument
    from relaybox.documents.document import write
    from relaybox.spark.derivations.deriving import derive as derive_route

    if as_json:
        write(DerivationDocument.model_validate(derive_route(route, derivation, session, recorded_by=recorded_by)))
    else:
        with derivation_line(route.name) as progress:
            done = derive_route(route, derivation, session, recorded_by=recorded_by, progress=progress)
        show_derived(done)
