"""The commands for the engineer on call after a store lost history: reanchor a hop, attest a store, rebuild one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from relaybox import errors
from relaybox.cli.exits import ExitCode, Settings
from relaybox.hops.runners import ThreadRunner
from relaybox.monitoring import documents
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.recovery.rebuilding import Rebuild, look_at_store, rebuild_store
from relaybox.recovery.restoring import restore_subscriptions
from relaybox.routes import Routes, Store, load_routes


def run_reanchor(settings: Settings, name: str, *, reason: str | None, as_json: bool) -> None:
    """Shows what a hop's stores have in common; with a reason that says something, lets the hop go on from there."""
    routes = load_routes(settings.config)
    found = reanchor_hop(routes.hop(name), routes, recorded_by=settings.recorded_by, reason=reason or "", dry_run=not reason)
    done = bool(reason) and found.loss != "nobody"
    if as_json:
        documents.write({**asdict(found), "done": done})
    else:
        from relaybox.cli.show import show_reanchored

        show_reanchored(found, done=done)
        if not done and found.may_be_attested:
            source = routes.hop(name).source.name
            print(f'If {source} lost nothing (a promotion, pg_upgrade), do not reanchor: relaybox attest {source} --reason "..."')
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
    hops = f"hops {', '.join(attested.hops)} go on" if attested.hops else "it has no hops"
    print(f"{name}: cluster {attested.system_identifier} on timeline {attested.timeline}, {what}; {hops}")


def run_rebuild(
    settings: Settings,
    name: str,
    *,
    reason: str | None,
    subscriptions: Path | None,
    accept_losses: bool,
    threads: int,
    as_json: bool,
) -> None:
    """Shows what a rebuild would bring back; with a reason, does it, and makes saved subscriptions anew."""
    routes = load_routes(settings.config)
    store = routes.store(name)
    saved = [] if subscriptions is None else _saved_subscriptions(subscriptions)
    if reason:
        found = _rebuild(settings, routes, store, reason, accept_losses=accept_losses, threads=threads, as_json=as_json)
        restored = restore_subscriptions(store, saved, found.doubts)
    else:
        found, restored = look_at_store(routes, store), []
    if as_json:
        documents.write({**asdict(found), "is_needed": found.is_needed, "subscriptions": [asdict(one) for one in restored]})
    else:
        from relaybox.cli.show import show_rebuild

        show_rebuild(found, restored)
        if not reason:
            print(_next_step(found))
    if "defects" in (found.verdicts or {}).values() or (not reason and found.is_needed):
        raise typer.Exit(ExitCode.DEFECT_FOUND)


def _next_step(found: Rebuild) -> str:
    if not found.is_needed and not found.losses:
        return "Nothing is lost; nothing is to be done."
    return f'Nothing was changed. To do it: relaybox rebuild {found.store} --reason "..."'


def _rebuild(
    settings: Settings, routes: Routes, store: Store, reason: str, *, accept_losses: bool, threads: int, as_json: bool
) -> Rebuild:
    runner, recorded_by = ThreadRunner(threads), settings.recorded_by
    if as_json:
        return rebuild_store(routes, store, runner, recorded_by=recorded_by, reason=reason, accept_losses=accept_losses)
    from relaybox.cli.show import transfer_bar

    return rebuild_store(
        *(routes, store, runner), recorded_by=recorded_by, reason=reason, accept_losses=accept_losses, show_progress=transfer_bar
    )


def _saved_subscriptions(path: Path) -> Sequence[Mapping[str, Any]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.ConfigurationError(f"{path}: can't be read as JSON ({error}).", next_step="Check the path.") from None
    found = document.get("subscriptions") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise errors.ConfigurationError(
            f"{path}: it has no list `subscriptions`.", next_step="Give what `relaybox subscriptions --json` had written."
        )
    return found
