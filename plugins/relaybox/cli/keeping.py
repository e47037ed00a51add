"""The commands for what is kept: for whom, dropping what nobody needs, and giving up what removed routes have not moved."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from relaybox import errors
from relaybox.cli import documents
from relaybox.cli.exits import Settings, exit_code, tell, worst
from relaybox.cli.tables import new_table, open_console, show_count, show_seconds, show_time
from relaybox.retention import read_retention, retain_store
from relaybox.retiring import choose_left_behind, find_left_behind, retire_hop
from relaybox.routes import load_routes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relaybox.retention import Holder, StoreRetained, StoreRetention, TableRetention
    from relaybox.retiring import LeftBehind
    from relaybox.routes import Store


def run_retention(settings: Settings, names: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    """Tells or drops, store by store. One that fails stops none of the others; the exit code is the worst one's."""
    routes = load_routes(settings.config)
    stores = [routes.store(name) for name in names] or [
        store for store in routes.stores.values() if store not in routes.unused_stores
    ]
    if dry_run:
        failed = _each(stores, read_retention, _show_kept, _kept_document, as_json=as_json)
    else:
        failed = _each(
            stores,
            lambda store: retain_store(store, recorded_by=settings.recorded_by),
            _show_retained,
            lambda done: {**asdict(done), "dropped_bytes": done.dropped_bytes},
            as_json=as_json,
        )
    for error in failed.values():
        tell(error, debug=settings.debug)
    raise typer.Exit(worst(map(exit_code, failed.values())))


def _each(
    stores: Sequence[Store],
    do: Callable[[Store], Any],
    show: Callable[[Any], None],
    document: Callable[[Any], documents.Document],
    *,
    as_json: bool,
) -> dict[str, errors.RelayboxError]:
    done, failed = [], {}
    for store in stores:
        try:
            done.append(do(store))
        except errors.RelayboxError as error:
            failed[store.name] = error  # told at the end; the other stores do not depend on this one
            continue
        if not as_json:
            show(done[-1])
    if as_json:
        documents.write(
            {"stores": [document(one) for one in done], "errors": {store: str(error) for store, error in failed.items()}}
        )
    return failed


def _kept_document(found: StoreRetention) -> documents.Document:
    return {
        "store": found.store,
        "tables": [
            {
                **asdict(table),
                "name": table.name,
                "size_bytes": table.size_bytes,
                "droppable": [asdict(segment) for segment in table.droppable],
            }
            for table in found.tables
        ],
    }


def _show_kept(found: StoreRetention) -> None:
    console = open_console()
    table = new_table("kept in", "segments", "MB", "would go", "from", "first needed by", right=("segments", "MB", "would go"))
    for one in found.tables:
        table.add_row(
            f"{found.store}: {one.name}",
            show_count(len(one.segments)),
            f"{one.size_bytes / 1e6:,.1f}",
            show_count(len(one.droppable)),
            f"{one.segments[0].first:,}" if one.segments else "-",
            _first_needed(one),
        )
    console.print(table)
    for one in found.tables:
        for holder in one.holders:
            if holder.since is not None:
                console.print(f"  {one.name}: {_name(holder)} needs what is from {holder.needs_from:,} on, {_age(holder)}")


def _first_needed(table: TableRetention) -> str:
    if not table.holders:
        return "nobody"
    first = table.holders[0]
    if first.kind == "window" and first.needs_from == 0:
        return f"{first.name}: no replay window is set, everything is kept"
    return f"{_name(first)}, from {first.needs_from:,}"


def _name(holder: Holder) -> str:
    return {"window": f"replay window of {holder.name}", "newest": "the newest segment stays"}.get(
        holder.kind, f"{holder.kind} {holder.name}"
    )


def _age(holder: Holder) -> str:
    since = holder.since or datetime.now(UTC)
    return f"for {show_seconds(max(0.0, (datetime.now(UTC) - since).total_seconds()))}"


def _show_retained(done: StoreRetained) -> None:
    for table in done.tables:
        what = f"{table.dropped_count:,} segments dropped, {table.dropped_bytes / 1e6:,.1f} MB"
        why = {
            "kept": f"the next is needed by {table.holder}",
            "busy": f"the next is in use by {table.holder or 'a session'}; the next run tries again",
            "none": "no segment is left",
        }[table.outcome]
        print(f"{done.store}: {table.name}: {what}; {why}")
    if done.compacted_count:
        print(f"{done.store}: ledgers: {done.compacted_count:,} batches removed of which no message is kept")


def run_retire(settings: Settings, name: str | None, *, reason: str | None, as_json: bool) -> None:
    """Tells what hops left behind; with a reason that says something, retires those that are named."""
    routes = load_routes(settings.config)
    if reason and name is None:
        raise errors.ConfigurationError(
            "a reason, and nothing to retire.", next_step="Name a hop or a route: relaybox retire --help"
        )
    found = find_left_behind(routes)
    chosen = found if name is None else choose_left_behind(name, found, routes)
    if reason:
        for hop in chosen:
            retire_hop(routes.store(hop.store), hop.hop, reason=reason, recorded_by=settings.recorded_by)
        chosen = choose_left_behind(name or "", find_left_behind(routes), routes)
    if as_json:
        documents.write({"hops": [asdict(hop) for hop in chosen]})
        return
    _show_left_behind(chosen)
    kept = sorted({hop.hop.rpartition("/")[0] for hop in chosen if hop.retired_at is None})
    for route in kept:
        print(f'Kept until: relaybox retire {route} --reason "..."')
    if reason:
        print("What nobody else needs goes with the next: relaybox retention")


def _show_left_behind(hops: Sequence[LeftBehind]) -> None:
    if not hops:
        print("no hop was left behind: relaybox.yaml has all that its stores know")
        return
    numbers = ("not settled", "waiting")
    table = new_table("hop", "way", *numbers, "oldest not arrived", "retired", right=numbers)
    for hop in hops:
        table.add_row(
            hop.hop,
            f"{hop.store} → {hop.destination}",
            show_count(hop.unsettled_count),
            show_count(hop.waiting_count),
            show_time(hop.oldest_sent_at),
            f"{show_time(hop.retired_at)} by {hop.retired_by}: {hop.retired_reason}" if hop.retired_at else "no",
        )
    open_console().print(table)
