"""Commands for the schema of stores and for this installation: init, version."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import Failures, Settings
from relaybox.cli.options import AsJson, answer

commands = typer.Typer()


@commands.command()
def init(
    context: typer.Context,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="Only these stores.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create or upgrade the schema of every store, and register its hops. All stores are checked before one is changed.

    Idempotent, and safe beside running work. The next init completes an interrupted one.

    \b
    Examples:
      relaybox init
      relaybox init hub analytics
    """
    from relaybox.cli.terminal.stores import show_initialised
    from relaybox.documents.document import write
    from relaybox.documents.stores import InitDocument, InitialisedStore
    from relaybox.stores.initialisation import initialise_stores

    settings: Settings = context.obj
    routes = settings.load_routes()
    outcome = initialise_stores([routes.store(name) for name in dict.fromkeys(stores or routes.stores)], routes)
    failures = Failures(dict(outcome.failures))
    if as_json:
        done = [InitialisedStore.model_validate(store) for store in outcome.stores]
        write(InitDocument(stores=done, errors=failures.document()))
    else:
        show_initialised(outcome.stores)
        if failures.by_store and not outcome.stores:
            print("no store was changed")
    failures.end(debug=settings.debug)


@commands.command()
def version(as_json: AsJson = False) -> None:
    """Show the version of Relaybox, and the schema version that stores need.

    \b
    Examples:
      relaybox version
    """
    from relaybox import __version__
    from relaybox.documents.stores import VersionDocument
    from relaybox.stores.migrations import newest_migration

    schema = newest_migration().number
    answer(f"relaybox {__version__}, schema {schema}", VersionDocument(version=__version__, schema=schema), as_json=as_json)
