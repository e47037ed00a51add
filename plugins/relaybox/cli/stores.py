"""Commands for the schema of stores and for this installation: init, version."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ExitCode, Failures, Settings
from relaybox.cli.options import AsJson, answer
from relaybox.cli.printable import print_text
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store

commands = CommandList()


@commands.command()
def init(
    context: typer.Context,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="Only these stores.", show_default=False)
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")] = False,
    as_sql: Annotated[
        bool, typer.Option("--sql", help="Write the init of one store as a script of psql; connect to no store.")
    ] = False,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="ROLE", help="With --sql: the role that owns the schemas.", show_default=False),
    ] = None,
    older: Annotated[
        bool, typer.Option("--older", help="Also replace functions that a newer version of Relaybox made, by older ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create or upgrade the schema of every store, and register its hops. All stores are checked before one is changed.

    Idempotent, and safe beside running work. The next init completes an interrupted one. With --dry-run
    nothing is changed, and the exit code is 1 if an init would change anything. It holds the locks of an
    init for a moment.

    With --sql the command changes nothing: it writes a script that a DBA reads and runs with
    psql -X -v ON_ERROR_STOP=1 -f hub.sql, at any time later. The script fits a database without a store,
    one of an earlier version, and one that is up to date.

    A store whose functions a newer version of Relaybox made is refused, by the command and by the script: older functions would
    replace newer ones. To go back to an earlier version, give --older.

    \b
    Examples:
      relaybox init
      relaybox init --dry-run
      relaybox init hub analytics
      relaybox init --sql hub --owner relaybox_owner > hub.sql
    """
    from relaybox.cli.terminal.stores import show_initialised
    from relaybox.documents.document import write
    from relaybox.documents.stores import InitDocument, InitialisedStore
    from relaybox.stores.init.all_stores import initialise_stores, plan_stores

    settings: Settings = context.obj
    _refuse_combinations(stores, as_sql=as_sql, owner=owner, dry_run=dry_run, as_json=as_json)
    routes = settings.load_routes()
    if as_sql and stores:
        from relaybox.stores.init.script import write_script

        sys.stdout.write(write_script(routes.store(stores[0]), routes, owner=owner, older=older))
        return
    chosen = [routes.store(name) for name in dict.fromkeys(stores or routes.stores)]
    if dry_run:
        outcome = plan_stores(chosen, routes, older=older)
    else:
        outcome = initialise_stores(chosen, routes, older=older, recorded_by=settings.recorded_by)
    failures = Failures(dict(outcome.failures))
    if as_json:
        done = [InitialisedStore.model_validate(store) for store in outcome.stores]
        write(InitDocument(dry_run=dry_run, stores=done, errors=failures.document()))
    else:
        show_initialised(outcome.stores, done=not dry_run)
        if failures.by_store and not outcome.stores:
            print_text("no store was changed")
    if not dry_run:
        initialised = {one.store for one in outcome.stores}
        _remember_stores(settings, routes, [store for store in chosen if store.name in initialised])
    if dry_run and not failures.by_store and any(store.changed for store in outcome.stores):
        raise typer.Exit(ExitCode.DEFECT_FOUND)
    failures.end(debug=settings.debug)


def _remember_stores(settings: Settings, routes: Routes, stores: Sequence[Store]) -> None:
    """Places of large payloads that are reached from here remember new stores. Tells on stderr, also of a place that is not reached."""
    if not routes.payloads:
        return
    from relaybox import errors
    from relaybox.payloads.preparing import remember_new_stores

    for place in routes.payloads.values():
        try:
            recorded = remember_new_stores(place, stores, recorded_by=settings.recorded_by)
        except errors.RelayboxError as error:
            print_text(
                f"warning: payloads {place.name}: it may not remember all stores of relaybox.yaml. {Exception.__str__(error)} Run where "
                f"it is reached: relaybox payloads prepare {place.name}",
                stderr=True,
            )
        else:
            if recorded:
                print_text(f"payloads {place.name}: it remembers {', '.join(recorded)} now", stderr=True)


def _refuse_combinations(stores: list[str] | None, *, as_sql: bool, owner: str | None, dry_run: bool, as_json: bool) -> None:
    """Wrong usage: options that do not go with --sql, or --owner without it."""
    if not as_sql:
        if owner is not None:
            raise typer.BadParameter("only with --sql; without it the login of the store owns the schemas.", param_hint="--owner")
        return
    if dry_run or as_json:
        raise typer.BadParameter(
            f"not with {'--dry-run' if dry_run else '--json'}: the script is all that the command writes.", param_hint="--sql"
        )
    if len(stores or ()) != 1:
        raise typer.BadParameter("name one store: a script is run in one database.", param_hint="--sql")
    if owner is not None and not owner.strip():
        raise typer.BadParameter("the name of the role is empty.", param_hint="--owner")
    if owner is not None and not owner.isprintable():
        raise typer.BadParameter("the name of the role has a control character.", param_hint="--owner")


@commands.command()
def version(as_json: AsJson = False) -> None:
    """Show the version of Relaybox, and the schema version that stores need. `relaybox --version` is the same.

    \b
    Examples:
      relaybox version
    """
    from relaybox import __version__
    from relaybox.documents.stores import VersionDocument
    from relaybox.stores.schema.migrations import newest_migration

    schema = newest_migration().number
    answer(f"relaybox {__version__}, schema {schema}", VersionDocument(version=__version__, schema=schema), as_json=as_json)
