"""The commands for what is kept: for whom, dropping what nobody needs, detaching what stopped consumers need, retiring hops."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from relaybox import errors
from relaybox.cli.exits import Failures, Settings
from relaybox.cli.spark import spark_archive
from relaybox.cli.tables import new_table, open_console, show_count, show_seconds, show_time
from relaybox.monitoring import documents
from relaybox.retention.detaching import attach_segments, detach_segments, has_detach_work, list_detached
from relaybox.retention.retiring import choose_left_behind, find_left_behind, find_unrouted, retire_hop, retire_topic
from relaybox.retention.segments import read_retention, retain_store
from relaybox.routes import load_routes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relaybox.retention.detaching import DetachedSegment, SegmentArchive, StoreDetached
    from relaybox.retention.retiring import Backlog
    from relaybox.retention.segments import Holder, StoreRetained, StoreRetention, TableRetained, TableRetention
    from relaybox.routes import Routes, Store


def run_retention(settings: Settings, names: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    """Tells; or drops and detaches, store by store. One that fails stops none of the others; the exit code is the worst one's."""
    routes = load_routes(settings.config)
    stores = [routes.store(name) for name in names] or routes.used_stores
    failures = Failures()
    if dry_run:
        _each(stores, read_retention, _show_kept, _kept_document, failures, as_json=as_json)
    else:
        with ExitStack() as spark:
            retaining = _Retaining(settings.recorded_by, spark, failures)
            _each(stores, retaining.retain, _show_both, _both_document, failures, as_json=as_json)
    failures.end(debug=settings.debug)


class _Retaining:
    """Drops, then detaches if there is anything to detach: Spark starts once for all stores, or not at all."""

    def __init__(self, recorded_by: str, spark: ExitStack, failures: Failures) -> None:
        self._recorded_by, self._spark, self._failures = recorded_by, spark, failures
        self._archive: SegmentArchive | None = None

    def retain(self, store: Store) -> tuple[StoreRetained, StoreDetached | None]:
        dropped = retain_store(store, recorded_by=self._recorded_by)
        if not has_detach_work(store):
            return dropped, None
        detached = None
        with self._failures.kept(store.name):  # what was dropped is told first
            self._archive = self._archive or self._spark.enter_context(spark_archive("relaybox retention"))
            detached = detach_segments(store, self._archive, recorded_by=self._recorded_by)
        return dropped, detached


def _each(
    stores: Sequence[Store],
    do: Callable[[Store], Any],
    show: Callable[[Any], None],
    document: Callable[[Any], documents.Document],
    failures: Failures,
    *,
    as_json: bool,
) -> None:
    done = []
    for store in stores:
        with failures.kept(store.name):
            done.append(do(store))
            if not as_json:
                show(done[-1])
    if as_json:
        documents.write({"stores": [document(one) for one in done], "errors": failures.document()})


def _both_document(done: tuple[StoreRetained, StoreDetached | None]) -> documents.Document:
    dropped, detached = done
    return {**asdict(dropped), "dropped_bytes": dropped.dropped_bytes, "detached": asdict(detached) if detached else None}


def _kept_document(found: StoreRetention) -> documents.Document:
    return {
        "store": found.store,
        "tables": [
            {
                **asdict(table),
                "name": table.name,
                "size_bytes": table.size_bytes,
                "droppable": [asdict(segment) for segment in table.droppable],
                "detachable": [asdict(segment) for segment in table.detachable],
                "detachable_for": table.detachable_for,
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
        if one.detachable:
            size = sum(segment.size_bytes for segment in one.detachable) / 1e6
            console.print(
                f"  {one.name}: {len(one.detachable):,} segments, {size:,.1f} MB, would be detached for {', '.join(one.detachable_for)}"
            )
        for holder in one.holders:
            if holder.since is not None:
                who = _name(holder.kind, holder.name)
                console.print(f"  {one.name}: {who} needs what is from {holder.needs_from:,} on, {_age(holder)}")


def _first_needed(table: TableRetention) -> str:
    if not table.holders:
        return "nobody"
    first = table.holders[0]
    return _needs(first.kind, first.name, first.needs_from)


def _needs(kind: str, name: str, needs_from: int) -> str:
    if kind == "window" and needs_from == 0:
        return f"{name}: no replay window is set, everything is kept"
    return f"{_name(kind, name)}, from {needs_from:,}"


def _name(kind: str, name: str) -> str:
    return {"window": f"replay window of {name}", "newest": "the newest segment stays"}.get(kind, f"{kind} {name}")


def _age(holder: Holder) -> str:
    since = holder.since or datetime.now(UTC)
    return f"for {show_seconds(max(0.0, (datetime.now(UTC) - since).total_seconds()))}"


def _show_both(done: tuple[StoreRetained, StoreDetached | None]) -> None:
    dropped, detached = done
    _show_retained(dropped)
    if detached is None:
        return
    for segment in detached.segments:
        print(
            f"{detached.store}: log of {segment.hop}: detached {_described(segment)}, which only {', '.join(segment.for_whom)} needs; "
            f"back by: relaybox attach {detached.store} {segment.hop}"
        )
    for hop, holder in detached.kept.items():
        print(f"{detached.store}: log of {hop}: the next was not detached: {holder}; the next run tries again")
    if detached.removed:
        print(f"{detached.store}: files of {len(detached.removed):,} detached segments removed: nobody needs them")


def _described(segment: DetachedSegment) -> str:
    return f"positions {segment.first:,} to {segment.last:,}, {segment.row_count:,} messages, {segment.directory}"


def run_attach(
    settings: Settings, store_name: str, hop: str, *, segments: int | None, remove: bool, dry_run: bool, as_json: bool
) -> None:
    """Brings detached segments of a log back, or tells which there are. Tells each that is back although a later one fails."""
    store = load_routes(settings.config).store(store_name)
    found = list_detached(store, hop)[:segments]
    if dry_run or not found:
        _tell_attached(store, found, "would come back", as_json=as_json)
        return
    done: list[DetachedSegment] = []
    try:
        with spark_archive(f"relaybox attach {hop}") as archive:
            for segment in attach_segments(store, hop, archive, recorded_by=settings.recorded_by, count=segments, remove=remove):
                done.append(segment)
                if not as_json:
                    print(f"{store.name}: log of {hop}: back are {_described(segment)}")
    finally:
        if as_json:
            _tell_attached(store, done, "", as_json=True)


def _tell_attached(store: Store, segments: Sequence[DetachedSegment], what: str, *, as_json: bool) -> None:
    if as_json:
        documents.write({"store": store.name, "segments": [asdict(segment) for segment in segments]})
        return
    for segment in segments:
        print(f"{store.name}: log of {segment.hop}: {what} {_described(segment)}")
    if not segments:
        print(f"{store.name}: nothing is detached there")


def _show_retained(done: StoreRetained) -> None:
    for table in done.tables:
        what = f"{table.dropped_count:,} segments dropped, {table.dropped_bytes / 1e6:,.1f} MB"
        why = {
            "kept": f"the next is kept: {_kept_by(table)}",
            "busy": f"the next is in use by {table.holder or 'a session'}; the next run tries again",
            "none": "no segment is left",
        }[table.outcome]
        print(f"{done.store}: {table.name}: {what}; {why}")
    if done.compacted_count:
        print(f"{done.store}: ledgers: {done.compacted_count:,} batches removed of which no message is kept")
    if done.released_count:
        print(f"{done.store}: {done.released_count:,} detached segments are needed by nobody any more")


def _kept_by(table: TableRetained) -> str:
    """In the words of the dry run."""
    holder = table.holder or ""
    if table.needs_from is None:
        return holder
    kind, _, name = holder.partition(" ")
    return _needs(kind, name, table.needs_from)


def run_retire(settings: Settings, name: str | None, *, topic: str | None, reason: str | None, as_json: bool) -> None:
    """Tells what hops left behind; with a reason that says something, retires those that are named."""
    routes = load_routes(settings.config)
    if topic is not None:
        _retire_topic(settings, routes, name, topic, reason=reason, as_json=as_json)
        return
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
    for kept in sorted({_name_to_retire(hop, routes) for hop in chosen if hop.retired_at is None}):
        print(f'Kept until: relaybox retire {kept} --reason "..."')
    if name is None:
        _show_unrouted(routes)
    if reason:
        print("What nobody else needs goes with the next: relaybox retention")


def _name_to_retire(hop: Backlog, routes: Routes) -> str:
    """The route; of a route that has only become shorter, the hop."""
    route = hop.hop.rpartition("/")[0]
    return hop.hop if route in routes.routes else route


def _show_unrouted(routes: Routes) -> None:
    """What routes of the file left of topics that were taken from them, and what no hop of their origins ever had."""
    for route in routes.routes.values():
        for one in find_unrouted(route.hops[0]):
            print(
                f"{one.hop}: {one.store} keeps {one.message_count:,} messages of topic {one.topic}, which the hop has not. "
                f'Kept until: relaybox retire {route.name} --topic {one.topic} --reason "..."'
            )


def _retire_topic(settings: Settings, routes: Routes, name: str | None, topic: str, *, reason: str | None, as_json: bool) -> None:
    """The same of one topic that was taken out of a route of the file."""
    if name is None:
        raise errors.ConfigurationError("a topic, and no route.", next_step="Name the route: relaybox retire ROUTE --topic TOPIC")
    hop = routes.route(name.partition("/")[0]).hops[0]
    if topic in hop.topics:
        raise errors.ConfigurationError(
            f"{hop.name} moves topic {topic}.", next_step=f"Take it out of the route in {routes.path} and run: relaybox init"
        )
    found = tuple(one for one in find_unrouted(hop) if one.topic == topic)
    retired = bool(reason) and retire_topic(hop, topic, reason=reason or "", recorded_by=settings.recorded_by)
    if as_json:
        documents.write({"topics": [{**asdict(one), "retired": retired} for one in found]})
        return
    for one in found:
        print(
            f"{one.hop}: {one.store} keeps {one.message_count:,} messages of topic {topic}, the oldest from {show_time(one.first_sent_at)}"
            + (": given up" if retired else f'. Kept until: relaybox retire {hop.route} --topic {topic} --reason "..."')
        )
    if not found:
        print(f"{hop.name}: {hop.source.name} keeps no message of topic {topic} that this hop left there")
    if retired:
        print("What nobody else needs goes with the next: relaybox retention")


def _show_left_behind(hops: Sequence[Backlog]) -> None:
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
