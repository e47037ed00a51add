"""Commands for held messages: list what they wait for, and skip a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.amounts import amount
from relaybox.cli.exits import Failures, Settings, end
from relaybox.cli.options import AsJson
from relaybox.cli.printable import print_text
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.streams.skipping import SkipResult

commands = CommandList()


@commands.command()
def holdback(
    context: typer.Context,
    route: Annotated[str | None, typer.Argument(metavar="[ROUTE]", help="Only this route.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the held messages of each store: what they wait for, for how long, and how to skip it.

    A message is held while an earlier message is missing: an earlier one of its sender (fifo, causal), or
    one that its clock names (causal). A stalled sender has more held messages than its limit: its next
    messages wait in the log.

    \b
    Examples:
      relaybox holdback
      relaybox holdback flights --json
    """
    from relaybox.cli.terminal.holdback import show_holdback
    from relaybox.documents.document import write
    from relaybox.documents.holdback import HoldbackDocument
    from relaybox.streams.holdback import read_holdback

    settings: Settings = context.obj
    routes = settings.load_routes()
    found = read_holdback(routes, list(routes.routes.values()) if route is None else [routes.route(route)])
    if as_json:
        write(HoldbackDocument.of(found))
    else:
        show_holdback(found)
    failed = {str(one.error): one.error for one in found if one.error is not None}
    end(failed.values(), debug=settings.debug)


@commands.command()
def skip(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route that brings the sender's messages.")],
    sender: Annotated[str, typer.Argument(metavar="SENDER", help="The sender with the gap.")],
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)],
    through: Annotated[
        int | None,
        typer.Option(
            "--through",
            min=1,
            help="Skip up to this index. Default: all before the first held message.",
            show_default=False,
        ),
    ] = None,
    held: Annotated[
        bool,
        typer.Option(
            "--held",
            help="Set aside the sender's next message (give its index with --through): its clock names messages that never come.",
        ),
    ] = False,
    store: Annotated[str | None, typer.Option("--store", help="Only at this store.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Skip the first gap of a sender, whose messages will never arrive. Messages that wait for the gap are delivered.

    Works at every store of the route that has the gap. A message on its way to a store is no gap there
    and can't be skipped. A skipped message that arrives later is set aside with reason index_skipped.
    The command is idempotent.

    \b
    Examples:
      relaybox skip flights pump-7 --reason "lost by hand, ticket 4711"
      relaybox skip flights pump-7 --through 120 --store hub --reason "ticket 4711"
      relaybox skip flights pump-7 --through 121 --held --reason "its clock names a sender that does not exist"
    """
    from relaybox.documents.document import write
    from relaybox.documents.holdback import SkipDocument, StoreSkip
    from relaybox.streams.skipping import skip_gap

    settings: Settings = context.obj
    routes = settings.load_routes()
    done = skip_gap(
        routes.route(route),
        sender,
        reason=reason,
        recorded_by=settings.recorded_by,
        through=through,
        held=held,
        only=None if store is None else routes.store(store),
    )
    failures = Failures({one.store: one.error for one in done if one.error is not None})
    told = [one for one in done if one.error is None]
    if as_json:
        stores = [StoreSkip.model_validate(one) for one in told]
        write(SkipDocument(route=route, sender=sender, stores=stores, errors=failures.document()))
    else:
        for one in told:
            print_text(f"{one.store}: {_said(one, sender)}")
    failures.end(debug=settings.debug)


def _said(done: SkipResult, sender: str) -> str:
    if done.gap is None:
        return f"nothing skipped; {done.why_not}"
    first, last = done.gap.first_index, done.gap.last_index
    what = f"index {first}" if first == last else f"indexes {first} to {last}"
    return f"{what} of {sender}, epoch {done.epoch}, skipped; {amount(done.released, 'message')} released"
