"""Commands after a store lost history: reanchor a hop, attest a store, rebuild a store."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson, answer
from relaybox.cli.printable import print_text
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from relaybox.recovery.rebuilding import Rebuild
    from relaybox.routes import Routes, Store

commands = CommandList()


@commands.command()
def reanchor(
    context: typer.Context,
    hop: Annotated[str, typer.Argument(metavar="HOP", help="The hop that stopped, as in flights/1.")],
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: a dry run.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a hop continue after one of its stores lost history (restore, failover, reload) or became another database.

    Compares both stores. Messages that the destination lost are sent again, to the same log positions.
    Messages that the source lost stay at the destination and are listed (ghosts); undelivered messages
    are sent first. Without --reason nothing is changed, and the exit code is 1 if there is work to do.

    \b
    Examples:
      relaybox reanchor flights/1
      relaybox reanchor flights/1 --reason "airline restored to 03:10, ticket 4711"
    """
    from relaybox.cli.terminal.recovery import show_reanchored
    from relaybox.documents.document import write
    from relaybox.documents.recovery import ReanchorDocument
    from relaybox.recovery.reanchoring import reanchor_hop

    settings: Settings = context.obj
    routes = settings.load_routes()
    found = reanchor_hop(routes.hop(hop), routes, recorded_by=settings.recorded_by, reason=reason or "", dry_run=not reason)
    done = bool(reason) and found.is_needed
    if as_json:
        write(ReanchorDocument.model_validate({**asdict(found), "done": done}))
    else:
        show_reanchored(found, origin=routes.route(routes.hop(hop).route).path[0].name, done=done)
        if not done and found.may_be_attested:
            source = routes.hop(hop).source.name
            print_text(
                f"If {source} lost nothing (a promotion, pg_upgrade), do not reanchor. "
                f'Run: relaybox attest {source} --reason "..."'
            )
        if not done and found.is_needed:
            print_text(f'Nothing was changed. To do it: relaybox reanchor {hop} --reason "..."')
        elif done:
            print_text(f"Now run: relaybox transfer {hop}")
    if not done and found.is_needed:
        raise typer.Exit(ExitCode.DEFECT_FOUND)


@commands.command()
def attest(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store whose cluster was promoted or upgraded.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Record that a store lost nothing although its cluster changed: a promotion without loss, pg_upgrade.

    The claim is verified: transaction numbers and the ledgers of both stores must continue where they were.

    \b
    Examples:
      relaybox attest hub --reason "promoted, the old primary had no unsent WAL"
    """
    from relaybox.documents.recovery import AttestDocument
    from relaybox.recovery.attesting import attest_store

    settings: Settings = context.obj
    routes = settings.load_routes()
    attested = attest_store(routes.store(store), routes, recorded_by=settings.recorded_by, reason=reason)
    what = "recorded" if attested.changed else "already recorded"
    hops = f"hops {', '.join(attested.hops)} continue" if attested.hops else "it has no hops"
    text = f"{store}: cluster {attested.system_identifier} on timeline {attested.timeline}, {what}; {hops}"
    answer(text, AttestDocument.model_validate(attested), as_json=as_json)


@commands.command()
def rebuild(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The lost store. Its service must point to a new database.")],
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: a dry run.", show_default=False)
    ] = None,
    subscriptions: Annotated[
        Path | None,
        typer.Option(
            "--subscriptions",
            help="Recreate the subscriptions of this file, written by `relaybox subscriptions --json`.",
            show_default=False,
        ),
    ] = None,
    accept_losses: Annotated[
        bool, typer.Option("--accept-losses", help="Continue although no other store has its outbox.")
    ] = False,
    threads: Annotated[int, typer.Option("--threads", min=1, max=64, help="Number of slices that are copied in parallel.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Restore a lost store from its neighbours: every log with the same log positions, and so every stream.

    Upstream stores send their batches again. Downstream stores get no message twice. At the end the
    command verifies every route of the store. Run it again after an interruption. The cursors of
    consumers were in the lost store: save them in time with `relaybox subscriptions --json`.
    Without --reason nothing is changed, and the exit code is 1 if there is anything to restore.

    \b
    Examples:
      relaybox rebuild analytics
      relaybox rebuild analytics --reason "disk died, ticket 4711" --subscriptions subscriptions.json
    """
    from relaybox.cli.terminal.recovery import show_rebuild
    from relaybox.documents.document import write
    from relaybox.documents.recovery import RebuildDocument
    from relaybox.recovery.rebuilding import look_at_store
    from relaybox.recovery.restoring import restore_subscriptions

    settings: Settings = context.obj
    routes = settings.load_routes()
    lost = routes.store(store)
    saved = [] if subscriptions is None else _saved_subscriptions(subscriptions)
    if reason:
        found = _rebuild(settings, routes, lost, reason, accept_losses=accept_losses, threads=threads, as_json=as_json)
        restored = restore_subscriptions(lost, saved, found.doubts)
    else:
        found, restored = look_at_store(routes, lost), []
    if as_json:
        members = {**asdict(found), "is_needed": found.is_needed, "subscriptions": [asdict(one) for one in restored]}
        write(RebuildDocument.model_validate(members))
    else:
        show_rebuild(found, restored)
        if not reason:
            print_text(_next_step(found))
    if "defects" in (found.outcomes or {}).values() or (not reason and found.is_needed):
        raise typer.Exit(ExitCode.DEFECT_FOUND)


def _next_step(found: Rebuild) -> str:
    if not found.is_needed and not found.losses:
        return "Nothing is lost. There is nothing to do."
    return f'Nothing was changed. To do it: relaybox rebuild {found.store} --reason "..."'


def _rebuild(
    settings: Settings, routes: Routes, store: Store, reason: str, *, accept_losses: bool, threads: int, as_json: bool
) -> Rebuild:
    from relaybox.cli.terminal.transfer import transfer_bar
    from relaybox.hops.runners import ThreadRunner
    from relaybox.recovery.rebuilding import rebuild_store

    runner, recorded_by = ThreadRunner(threads), settings.recorded_by
    if as_json:
        return rebuild_store(routes, store, runner, recorded_by=recorded_by, reason=reason, accept_losses=accept_losses)
    return rebuild_store(
        *(routes, store, runner), recorded_by=recorded_by, reason=reason, accept_losses=accept_losses, show_progress=transfer_bar
    )


def _saved_subscriptions(path: Path) -> Sequence[Mapping[str, Any]]:
    from relaybox import errors

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.ConfigurationError(f"{path}: can't be read as JSON ({error}).", next_step="Check the path.") from None
    found = document.get("subscriptions") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise errors.ConfigurationError(
            f"{path}: the JSON has no list `subscriptions`.",
            next_step="Give a file that `relaybox subscriptions --json` wrote.",
        )
    return found
