"""The commands that change stores: init, transfer, confirm; and version, which asks nobody."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from relaybox import __version__
from relaybox.cli.exits import ExitCode, Failures, Settings
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import Progress, TransferSummary, transfer_hop
from relaybox.monitoring import documents
from relaybox.routes import Hop, Route, Routes, load_routes
from relaybox.stores.initialisation import initialise_stores
from relaybox.stores.schema import read_migrations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def run_init(settings: Settings, names: Sequence[str], *, as_json: bool) -> None:
    """Initialises the stores named, or all: none of them when one fails its check. The exit code is the worst error's."""
    routes = load_routes(settings.config)
    stores = [routes.store(name) for name in dict.fromkeys(names)] or list(routes.stores.values())
    outcome = initialise_stores(stores, routes)
    failures = Failures(dict(outcome.failures))
    if as_json:
        documents.write(
            {"stores": [{**asdict(store), "changed": store.changed} for store in outcome.stores], "errors": failures.document()}
        )
    else:
        from relaybox.cli.show import show_initialised

        show_initialised(outcome.stores)
        if failures.by_store and not outcome.stores:
            print("no store was changed")
    failures.end(debug=settings.debug)


def run_transfer(settings: Settings, name: str, *, threads: int, linger_seconds: float | None, as_json: bool) -> None:
    """Runs a hop with threads of this process. Exit 2 if relaybox.yaml has topics that the store does not move yet."""
    hop = load_routes(settings.config).hop(name)
    linger = hop.limits.linger_seconds if linger_seconds is None else linger_seconds
    if as_json:
        summary = _transfer(settings, hop, threads, linger)
        documents.write({**asdict(summary), "rows_per_second": summary.rows_per_second})
    else:
        from relaybox.cli.show import show_transfer, transfer_bar

        with transfer_bar(hop) as progress:
            summary = _transfer(settings, hop, threads, linger, progress)
        show_transfer(summary)
    if summary.waiting_for_init is not None:
        print(f"warning: {summary.waiting_for_init}", file=sys.stderr)
        raise typer.Exit(ExitCode.CONFIGURATION)


def _transfer(
    settings: Settings, hop: Hop, threads: int, linger_seconds: float, progress: Callable[[Progress], None] = lambda _: None
) -> TransferSummary:
    return transfer_hop(
        hop, ThreadRunner(threads), recorded_by=settings.recorded_by, linger_seconds=linger_seconds, progress=progress
    )


def run_confirm(settings: Settings, name: str, *, as_json: bool) -> None:
    """Settles the hops of a route, the last one first, or one hop."""
    route, hops = _hops_to_settle(load_routes(settings.config), name)
    settled = [settle_hop(route, hop, recorded_by=settings.recorded_by) for hop in hops]
    if as_json:
        documents.write({"hops": [asdict(hop) for hop in settled]})
        return
    from relaybox.cli.show import show_settled

    show_settled(settled)


def _hops_to_settle(routes: Routes, name: str) -> tuple[Route, list[Hop]]:
    if "/" in name:
        hop = routes.hop(name)
        return routes.route(hop.route), [hop]
    route = routes.route(name)
    return route, list(reversed(route.hops))


def run_version(*, as_json: bool) -> None:
    """Shows what this installation is."""
    schema = read_migrations()[-1].number
    if as_json:
        documents.write({"version": __version__, "schema": schema})
    else:
        print(f"relaybox {__version__}, schema {schema}")
