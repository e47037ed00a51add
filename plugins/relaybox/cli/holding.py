"""The commands for what streams hold back: who waits for what, and giving up a gap."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from relaybox.cli.exits import ExitCode, Settings, end
from relaybox.monitoring import documents
from relaybox.routes import load_routes
from relaybox.streams.holdback import read_holdback, skip_gap

if TYPE_CHECKING:
    from relaybox.streams.holdback import Skipped


def run_holdback(settings: Settings, route: str | None, *, as_json: bool) -> None:
    """Shows what waits at every store. Exit 4 or 5 if a store did not answer; that something waits is no error."""
    routes = load_routes(settings.config)
    found = read_holdback(routes, list(routes.routes.values()) if route is None else [routes.route(route)])
    if as_json:
        documents.write(documents.holdback_document(found))
    else:
        from relaybox.cli.show_streams import show_holdback

        show_holdback(found)
    failed = {str(store.error): store.error for store in found if store.error is not None}
    end(failed.values(), debug=settings.debug)


def run_skip(
    settings: Settings,
    route: str,
    sender: str,
    *,
    reason: str,
    through: int | None,
    held: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Gives up a gap, and says so store by store."""
    routes = load_routes(settings.config)
    done = skip_gap(
        routes.route(route),
        sender,
        reason=reason,
        recorded_by=settings.recorded_by,
        through=through,
        held=held,
        only=None if store is None else routes.store(store),
    )
    if as_json:
        documents.write({"route": route, "sender": sender, "stores": [asdict(one) for one in done]})
    else:
        for one in done:
            print(f"{one.store}: {_said(one, sender)}")
    raise typer.Exit(ExitCode.FINE)


def _said(done: Skipped, sender: str) -> str:
    if done.gap is None:
        return f"nothing skipped; {done.why_not}"
    first, last = done.gap.first_index, done.gap.last_index
    what = f"index {first}" if first == last else f"indexes {first} to {last}"
    return f"{what} of {sender}, epoch {done.epoch}, given up; {done.released:,} messages released"
