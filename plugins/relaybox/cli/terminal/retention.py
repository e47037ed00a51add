"""Shows the answers of retention: what is kept and who needs it, what was dropped, detached and attached."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.printable import print_text
from relaybox.cli.terminal.tables import new_table, open_console, show_count, show_seconds, show_time
from relaybox.retention.retiring import find_unrouted

if TYPE_CHECKING:
    from relaybox.retention.detached_segments import DetachedSegment
    from relaybox.retention.detaching import StoreDetached
    from relaybox.retention.retiring import Backlog, UnroutedBacklog
    from relaybox.retention.segments import Holder, StoreRetained, StoreRetention, TableRetained, TableRetention
    from relaybox.routes import Hop, Route, Routes, Store


def show_kept(found: StoreRetention) -> None:
    console = open_console()
    table = new_table(
        "kept in", "segments", "MB", "droppable", "first kept", "first needed by", right=("segments", "MB", "droppable")
    )
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
        if one.detachable:
            size = sum(segment.size_bytes for segment in one.detachable) / 1e6
            segments = amount(len(one.detachable), "segment")
            console.print(f"  {one.name}: {segments}, {size:,.1f} MB, would be detached for {', '.join(one.detachable_for)}")
        for holder in one.holders:
            who = _name(holder.kind, holder.name)
            if holder.since is not None:
                console.print(f"  {one.name}: {who} needs all from {holder.needs_from:,} on, {_age(holder)}")
            if holder.next_step is not None:
                print_text(f"  {one.name}: {holder.what}. {holder.next_step}")


def _first_needed(table: TableRetention) -> str:
    if not table.holders:
        return "none"
    first = table.holders[0]
    return _needs(first.kind, first.name, first.needs_from)


def _needs(kind: str, name: str, needs_from: int) -> str:
    if kind == "window" and needs_from == 0:
        return f"{name}: no replay window is set, everything is kept"
    return f"{_name(kind, name)}, from {needs_from:,}"


def _name(kind: str, name: str) -> str:
    shown = {
        "window": f"replay window of {name}",
        "newest": "the newest segment stays",
    }
    return shown.get(kind, f"{kind} {name}")


def _age(holder: Holder) -> str:
    since = holder.since or datetime.now(UTC)
    return f"for {show_seconds(max(0.0, (datetime.now(UTC) - since).total_seconds()))}"


def show_retained(done: tuple[StoreRetained, StoreDetached | None]) -> None:
    dropped, detached = done
    _show_dropped(dropped)
    if detached is None:
        return
    for segment in detached.segments:
        print_text(
            f"{detached.store}: log of {segment.hop}: detached {_described(segment)}, needed only by "
            f"{', '.join(segment.needed_by)}. To attach it: relaybox attach {detached.store} {segment.hop}"
        )
    for hop, holder in detached.kept.items():
        print_text(f"{detached.store}: log of {hop}: the next segment was not detached: {holder}; the next run tries again")
    if detached.removed:
        print_text(
            f"{detached.store}: files of {amount(len(detached.removed), 'detached segment')} removed: no consumer needs them"
        )


def _show_dropped(done: StoreRetained) -> None:
    for table in done.tables:
        what = f"{amount(table.dropped_count, 'segment')} dropped, {table.dropped_bytes / 1e6:,.1f} MB"
        why = {
            "kept": f"the next segment is kept: {_kept_by(table)}",
            "busy": f"the next segment is in use by {table.holder or 'a session'}; the next run tries again",
            "none": "no segment is left",
        }[table.outcome]
        step = "" if table.next_step is None else f". {table.next_step}"
        print_text(f"{done.store}: {table.name}: {what}; {why}{step}")
    if done.compacted_count:
        print_text(
            f"{done.store}: ledgers: {amount(done.compacted_count, 'batch', 'batches')} removed of which no message is kept"
        )
    if done.compacted_attempt_count:
        print_text(
            f"{done.store}: derivations: {amount(done.compacted_attempt_count, 'attempt')} removed of which no message is kept"
        )
    if done.released_count:
        print_text(
            f"{done.store}: {amount(done.released_count, 'detached segment is', 'detached segments are')} no longer needed by any consumer"
        )


def _kept_by(table: TableRetained) -> str:
    """In the words of the dry run; then the reader that is awaited there."""
    if table.holder_kind is None or table.holder_name is None or table.needs_from is None:
        return table.holder or ""
    if table.holder_kind == "awaited" and table.awaited is not None:
        return table.awaited
    said = _needs(table.holder_kind, table.holder_name, table.needs_from)
    return said if table.awaited is None else f"{said}. {table.awaited}"


def _described(segment: DetachedSegment) -> str:
    return f"positions {segment.first:,} to {segment.last:,}, {amount(segment.row_count, 'message')}, {segment.directory}"


def show_attached(store: Store, segments: Sequence[DetachedSegment]) -> None:
    """What `attach` would bring back."""
    for segment in segments:
        print_text(f"{store.name}: log of {segment.hop}: would come back {_described(segment)}")
    if not segments:
        print_text(f"{store.name}: nothing is detached there")


def show_attaching(store: Store, segment: DetachedSegment) -> None:
    print_text(f"{store.name}: log of {segment.hop}: back are {_described(segment)}")


def show_left_behind(hops: Sequence[Backlog], routes: Routes) -> None:
    if not hops:
        print_text("relaybox.yaml contains all hops that its stores have registered")
        return
    numbers = ("not settled", "waiting")
    table = new_table("hop", "path", *numbers, "oldest not arrived", "retired", right=numbers)
    for hop in hops:
        table.add_row(
            hop.hop,
            f"{hop.store} -> {hop.destination}",
            show_count(hop.unsettled_count),
            show_count(hop.waiting_count),
            show_time(hop.oldest_sent_at),
            f"{show_time(hop.retired_at)} by {hop.retired_by}: {hop.retired_reason}" if hop.retired_at else "no",
        )
    open_console().print(table)
    for hop in hops:
        if hop.in_use is not None:
            print_text(f"{hop.hop} is in use: {hop.in_use}. {hop.in_use_next_step}")
    for kept in sorted({_name_to_retire(hop, routes) for hop in hops if hop.retired_at is None and hop.in_use is None}):
        print_text(f'Kept. To discard it: relaybox retire {kept} --reason "..."')


def _name_to_retire(hop: Backlog, routes: Routes) -> str:
    """The route; of a route that has only become shorter, the hop."""
    route = hop.hop.rpartition("/")[0]
    return hop.hop if route in routes.routes else route


def show_unrouted(route: Route) -> None:
    """What a route of the file left of topics that were taken from it, and what no hop of its origin ever had."""
    for one in find_unrouted(route.hops[0]):
        print_text(
            f"{one.hop}: {one.store} keeps {amount(one.message_count, 'message')} of topic {one.topic}, which the hop does "
            f'not move. To discard them: relaybox retire {route.name} --topic {shlex.quote(one.topic)} --reason "..."'
        )


def show_topic_left_behind(hop: Hop, topic: str, found: Sequence[UnroutedBacklog], *, retired: bool) -> None:
    """What a topic that was taken out of a route left in the outbox."""
    for one in found:
        kept = amount(one.message_count, "message")
        print_text(
            f"{one.hop}: {one.store} keeps {kept} of topic {topic}, the oldest from {show_time(one.first_sent_at)}"
            + (
                ": discarded"
                if retired
                else f'. To discard them: relaybox retire {hop.route} --topic {shlex.quote(topic)} --reason "..."'
            )
        )
    if not found:
        print_text(f"{hop.name}: {hop.source.name} keeps no unrouted message of topic {topic}")


def show_next_retention() -> None:
    print_text("To drop the segments that nothing else needs, run: relaybox retention")
