"""The commands for the engineer on call after a store lost history: reanchor a hop, attest a store."""

from __future__ import annotations

from dataclasses import asdict

import typer

from relaybox.attesting import attest_store
from relaybox.cli import documents
from relaybox.cli.exits import ExitCode, Settings
from relaybox.reanchoring import reanchor_hop
from relaybox.routes import load_routes


def run_reanchor(settings: Settings, name: str, *, reason: str | None, as_json: bool) -> None:
    """Shows what a hop's stores have in common; with a reason that says something, lets the hop go on from there."""
    hop = load_routes(settings.config).hop(name)
    found = reanchor_hop(hop, recorded_by=settings.recorded_by, reason=reason or "", dry_run=not reason)
    done = bool(reason) and found.loss != "nobody"
    if as_json:
        documents.write({**asdict(found), "done": done})
    else:
        from relaybox.cli.show import show_reanchored

        show_reanchored(found, done=done)
        if not done and found.loss != "nobody":
            print(f'Nothing was changed. To do it: relaybox reanchor {name} --reason "..."')
        elif done:
            print(f"Now run: relaybox transfer {name}")
    if not done and found.loss != "nobody":
        raise typer.Exit(ExitCode.DEFECT_FOUND)


def run_attest(settings: Settings, name: str, *, reason: str, as_json: bool) -> None:
    """Records the fingerprint of the cluster that is a store now."""
    routes = load_routes(settings.config)
    attested = attest_store(routes.store(name), routes, recorded_by=settings.recorded_by, reason=reason)
    if as_json:
        documents.write(asdict(attested))
        return
    what = "recorded" if attested.changed else "known already"
    print(
        f"{name}: cluster {attested.system_identifier} on timeline {attested.timeline}, {what}; hops {', '.join(attested.hops)} go on"
    )
