"""Commands of retention: drop, detach and attach segments, retire hops and topics."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from relaybox.cli.exits import Failures, Settings, warn_unanswered
from relaybox.cli.options import AsJson
from relaybox.cli.printable import print_text
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relaybox.payloads.collecting import PlaceCollected
    from relaybox.retention.detached_segments import DetachedSegment
    from relaybox.retention.detaching import StoreDetached
    from relaybox.retention.retiring import Backlog
    from relaybox.retention.segment_archive import SegmentArchive
    from relaybox.retention.segments import StoreRetained
    from relaybox.routes import Routes, Store

_Done = TypeVar("_Done")

commands = CommandList()


@commands.command()
def retention(
    context: typer.Context,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="Only these stores.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what is kept, for which reader, and what a run would drop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Drop segments of outboxes and logs that no hop and no subscription needs. Never drops single rows.

    A segment is dropped when every hop has settled it, every subscription has acknowledged it, no message in it is held or an
    open dead letter, and it is older than the replay window of relaybox.yaml. Without a window everything is kept. The newest
    segment is always kept, and so is the stream of a reader of relaybox.yaml that has not subscribed yet.

    Then, for routes with stopped_consumer: detach, Spark puts segments that only stopped subscriptions need into files. Then
    files of large payloads to which no message refers are collected (section payloads), unless you name stores.

    Can be interrupted, repeated, and run twice at once. A segment that a session holds is left for the next run.

    Columns of --dry-run: first kept is the seq of an outbox, or the log position of a log, with which the kept rows begin;
    first needed by is the first of those that need the next segment. The lines below name all of them.

    \b
    Examples:
      relaybox retention --dry-run
      relaybox retention hub analytics
      relaybox retention --json
    """
    settings: Settings = context.obj
    routes = settings.load_routes()
    chosen = [routes.store(name) for name in stores or ()] or tuple(routes.stores.values())
    failures = Failures()
    places = () if stores else tuple(routes.payloads.values())

    def collect() -> list[PlaceCollected]:
        from relaybox.cli.payloads import collect_places

        return collect_places(settings, list(routes.stores.values()), places, failures, dry_run=dry_run, as_json=as_json)

    if dry_run:
        _tell_kept(routes, chosen, collect, failures, as_json=as_json)
    else:
        _retain(settings, routes, chosen, collect, failures, as_json=as_json)
    if stores and routes.payloads and not as_json:
        print_text(f"payloads: only some stores were chosen, so nothing was collected of {', '.join(routes.payloads)}")
    failures.end(debug=settings.debug)


def _tell_kept(
    routes: Routes, stores: Sequence[Store], collect: Callable[[], list[PlaceCollected]], failures: Failures, *, as_json: bool
) -> None:
    from relaybox.cli.terminal.retention import show_kept
    from relaybox.documents.document import write
    from relaybox.documents.payloads import PlaceCollectedDocument
    from relaybox.documents.retention import KeptDocument, KeptStore
    from relaybox.retention.segments import StoreRetention, read_retention

    def read(store: Store) -> StoreRetention:
        return read_retention(store, routes)

    done = _each(stores, read, None if as_json else show_kept, failures)
    places = [PlaceCollectedDocument.model_validate(one) for one in collect()]
    if as_json:
        kept = [KeptStore.model_validate(one) for one in done]
        write(KeptDocument(stores=kept, payloads=places, errors=failures.document()))


def _retain(
    settings: Settings,
    routes: Routes,
    stores: Sequence[Store],
    collect: Callable[[], list[PlaceCollected]],
    failures: Failures,
    *,
    as_json: bool,
) -> None:
    """Drops and detaches, store by store. One that fails stops none of the others; the exit code is the worst one's."""
    from relaybox.cli.terminal.retention import show_retained
    from relaybox.documents.document import write
    from relaybox.documents.payloads import PlaceCollectedDocument
    from relaybox.documents.retention import RetainedStore, RetentionDocument

    with ExitStack() as spark:
        retaining = _Retaining(routes, settings.recorded_by, spark, failures)
        done = _each(stores, retaining.retain, None if as_json else show_retained, failures)
    places = [PlaceCollectedDocument.model_validate(one) for one in collect()]
    if as_json:
        retained = [RetainedStore.of(dropped, detached) for dropped, detached in done]
        write(RetentionDocument(stores=retained, payloads=places, errors=failures.document()))


class _Retaining:
    """Drops, then detaches if there is anything to detach: Spark starts once for all stores, or not at all."""

    def __init__(self, routes: Routes, recorded_by: str, spark: ExitStack, failures: Failures) -> None:
        self._routes = routes
        self._recorded_by, self._spark, self._failures = recorded_by, spark, failures
        self._archive: SegmentArchive | None = None

    def retain(self, store: Store) -> tuple[StoreRetained, StoreDetached | None]:
        from relaybox.cli.spark import spark_archive
        from relaybox.retention.detaching import detach_segments, has_detach_work
        from relaybox.retention.segments import retain_store

        dropped = retain_store(store, recorded_by=self._recorded_by, routes=self._routes)
        if not has_detach_work(store, self._routes):
            return dropped, None
        detached = None
        with self._failures.kept(store.name):  # what was dropped is told first
            self._archive = self._archive or self._spark.enter_context(spark_archive("relaybox retention"))
            detached = detach_segments(store, self._archive, recorded_by=self._recorded_by, routes=self._routes)
        return dropped, detached


def _each(
    stores: Sequence[Store], do: Callable[[Store], _Done], show: Callable[[_Done], None] | None, failures: Failures
) -> list[_Done]:
    """What was done at each store that did not fail; shown at once, store by store."""
    done = []
    for store in stores:
        with failures.kept(store.name):
            done.append(do(store))
            if show is not None:
                show(done[-1])
    return done


@commands.command()
def attach(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store of the log.")],
    hop: Annotated[str, typer.Argument(metavar="HOP", help="The hop that filled the log, as in flights/1.")],
    segments: Annotated[
        int | None,
        typer.Option("--segments", min=1, help="Number of segments, the newest first. Default: all.", show_default=False),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the files of attached segments.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would come back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring detached messages back into their log, at the same log positions, with Spark. Their consumers then continue.

    Retention detaches segments that only stopped subscriptions need (stopped_consumer: detach). An attached segment can be read
    when its count and content are verified. It stays for detach_after_seconds at least. Its files stay until retention drops or
    detaches the segment again, unless --remove is given. Can be interrupted, repeated, and run twice at once.

    \b
    Examples:
      relaybox attach hub flights/1 --dry-run
      relaybox attach hub flights/1
      relaybox attach hub flights/1 --segments 2 --remove --json
    """
    from relaybox.cli.spark import spark_archive
    from relaybox.cli.terminal.retention import show_attached, show_attaching
    from relaybox.retention.attaching import attach_segments
    from relaybox.retention.detached_segments import list_detached

    settings: Settings = context.obj
    at = settings.load_routes().store(store)
    found = list_detached(at, hop)[:segments]
    if dry_run or not found:
        if as_json:
            _write_attached(at, found)
        else:
            show_attached(at, found)
        return
    done: list[DetachedSegment] = []
    try:
        with spark_archive(f"relaybox attach {hop}") as archive:
            for segment in attach_segments(at, hop, archive, recorded_by=settings.recorded_by, count=segments, remove=remove):
                done.append(segment)
                if not as_json:
                    show_attaching(at, segment)
    finally:
        if as_json:
            _write_attached(at, done)


def _write_attached(store: Store, segments: Sequence[DetachedSegment]) -> None:
    from relaybox.documents.document import write
    from relaybox.documents.retention import AttachDocument, DetachedSegmentDocument

    write(AttachDocument(store=store.name, segments=[DetachedSegmentDocument.model_validate(segment) for segment in segments]))


@commands.command()
def retire(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[HOP|ROUTE]",
            help="The hop or route that was taken out of relaybox.yaml; with --topic, a route of the file.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="Only this topic: it was taken out of the route, or no route has had it.", show_default=False
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Discard, and record why. Without it: only list.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Discard the undelivered backlog of removed routes and topics, so that retention can drop it.

    A route that is removed from the file stops, and its messages are kept. So are the messages of a removed topic that no batch
    has. Without --reason this command only lists them. With --reason it discards them and records why. Messages that arrived at
    a destination stay there.

    Run relaybox init before you retire a route: a hop is refused if the newest init, or a driver since, has it in its
    relaybox.yaml, because the file here may be older. A retired hop never comes back: a new route needs a new name. A retired
    topic may come back: messages that are committed afterwards are moved.

    Without a name the command lists all hops that a store knows and the file does not have, and topics that no hop reads.

    \b
    Examples:
      relaybox retire
      relaybox retire bookings
      relaybox retire bookings --reason "replaced by reservations, ticket 4711"
      relaybox retire flights --topic cargo
      relaybox retire flights --topic cargo --reason "cargo is sent by its own system now"
    """
    from relaybox import errors

    settings: Settings = context.obj
    routes = settings.load_routes()
    if topic is not None:
        _retire_topic(settings, routes, name, topic, reason=reason, as_json=as_json)
        return
    if reason and name is None:
        raise errors.ConfigurationError(
            "a reason, and nothing to retire.", next_step="Name a hop or a route: relaybox retire --help"
        )
    _retire_hops(settings, routes, name, reason=reason, as_json=as_json)


def _retire_hops(settings: Settings, routes: Routes, name: str | None, *, reason: str | None, as_json: bool) -> None:
    """Lists the hops that relaybox.yaml no longer contains; with a reason retires those of the name."""
    from relaybox.documents.document import write
    from relaybox.documents.retention import RetireDocument
    from relaybox.documents.status import OrphanedHopDocument
    from relaybox.retention.retiring import (
        choose_orphaned_hops,
        deliver_left_behind,
        find_orphaned_hops,
        refuse_hops_in_use,
        retire_hop,
    )

    failures = Failures()
    found, failures.by_store = find_orphaned_hops(routes)
    if failures.by_store and name is not None and not any(name in (hop.hop, hop.hop.rpartition("/")[0]) for hop in found):
        raise next(iter(failures.by_store.values()))  # one of the stores that did not answer may have it
    chosen = found if name is None else choose_orphaned_hops(name, found, routes)
    if reason:
        refuse_hops_in_use(chosen)
        for store in routes.stores.values():
            with failures.kept(store.name):
                deliver_left_behind(store)
        for hop in chosen:
            with failures.kept(hop.store):
                retire_hop(routes.store(hop.store), hop.hop, reason=reason, recorded_by=settings.recorded_by)
        again, unanswered = find_orphaned_hops(routes)
        failures.by_store.update(unanswered)
        names = {hop.hop for hop in chosen}
        chosen = tuple(hop for hop in again if hop.hop in names)
    if as_json:
        hops = [OrphanedHopDocument.model_validate(hop) for hop in chosen]
        write(RetireDocument(hops=hops, errors=failures.document()))
    else:
        _show_retired(chosen, routes, failures, with_topics=name is None, retired=bool(reason))
    if name is not None and any(hop.hop == name for hop in chosen):
        needed = {hop.store for hop in chosen}
        for unanswering in failures.by_store.keys() - needed:
            warn_unanswered(failures.by_store.pop(unanswering), f"Hop {name} does not leave {unanswering}.")
    failures.end(debug=settings.debug)


def _show_retired(hops: Sequence[Backlog], routes: Routes, failures: Failures, *, with_topics: bool, retired: bool) -> None:
    from relaybox.cli.terminal.retention import show_left_behind, show_next_retention, show_unrouted

    if hops or not failures.by_store:
        show_left_behind(hops, routes)
    else:
        print_text(f"Could not be read: {', '.join(sorted(failures.by_store))}.")
    if with_topics:
        for route in routes.routes.values():
            if route.path[0].name not in failures.by_store:
                show_unrouted(route)
    if retired:
        show_next_retention()


def _retire_topic(settings: Settings, routes: Routes, name: str | None, topic: str, *, reason: str | None, as_json: bool) -> None:
    """The same of one topic that was taken out of a route of the file."""
    from relaybox import errors
    from relaybox.cli.terminal.retention import show_next_retention, show_topic_left_behind
    from relaybox.documents.document import write
    from relaybox.documents.retention import RetireTopicDocument
    from relaybox.retention.retiring import find_unrouted, retire_topic

    if name is None:
        raise errors.ConfigurationError(
            f"--topic {topic} needs a route.",
            next_step="To list the topics that can be retired, with their routes, run: relaybox retire",
        )
    hop = routes.route(name.partition("/")[0]).hops[0]
    if topic in hop.topics:
        raise errors.ConfigurationError(
            f"{hop.name} moves topic {topic}.", next_step=f"Take it out of the route in {routes.path} and run: relaybox init"
        )
    found = tuple(one for one in find_unrouted(hop) if one.topic == topic)
    retired = bool(reason) and retire_topic(hop, topic, reason=reason or "", recorded_by=settings.recorded_by)
    if as_json:
        write(RetireTopicDocument.of(found, retired=retired))
        return
    show_topic_left_behind(hop, topic, found, retired=retired)
    if retired:
        show_next_retention()
