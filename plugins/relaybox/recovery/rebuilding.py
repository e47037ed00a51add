"""A store that is lost and begins anew as an empty database: what its neighbours still have brings it back, position by position.

What arrived in it is sent again from the batches that its upstream stores keep, to the same positions; so its streams come out
the same. What it had passed on is adopted from the stores further down, which get nothing twice. Each step can be repeated, so a
rebuild that was killed is run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.log_events import emit
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.opening import store_session
from relaybox.verification.route_verification import verify_route

if TYPE_CHECKING:
    from relaybox.hops.runners import SliceRunner
    from relaybox.routes import Hop, Routes, Store

ShowProgress = Callable[["Hop"], AbstractContextManager[Callable[[Progress], None]]]
"""Makes the progress bar of a hop."""


@dataclass(frozen=True)
class HopToRebuild:
    """A hop of the store, as the store at its other end knows it.

    Attributes:
        arrives: it arrives in the store; else it leaves it.
        message_count: messages that the other store has confirmed as arrived here (arrives), or has itself (leaves).
        known_count: how many of them this store knows of.
    """

    hop: str
    arrives: bool
    other_store: str
    message_count: int
    known_count: int


@dataclass(frozen=True)
class Rebuild:
    """What was found, and (unless it was a dry run) done.

    Attributes:
        losses: what no other store has, in words; nothing is done about it.
        doubts: streams whose stream positions may differ from the lost ones, by name, and why: no cursor is restored there.
        moved_count: messages that were sent to this store.
        outcomes: of each route through the store, compared message by message: delivered, in flight, defects.
    """

    store: str
    done: bool
    hops: tuple[HopToRebuild, ...]
    losses: tuple[str, ...]
    doubts: Mapping[str, str]
    moved_count: int = 0
    outcomes: Mapping[str, str] | None = None
    duration_seconds: float = 0.0

    @property
    def is_needed(self) -> bool:
        return any(hop.known_count < hop.message_count for hop in self.hops)


def _no_bar(_: Hop) -> AbstractContextManager[Callable[[Progress], None]]:
    return nullcontext(lambda _: None)


def rebuild_store(
    routes: Routes,
    store: Store,
    runner: SliceRunner,
    *,
    recorded_by: str,
    reason: str,
    accept_losses: bool = False,
    show_progress: ShowProgress = _no_bar,
) -> Rebuild:
    """Initialises a lost store, has everything sent again that its neighbours keep, and proves its routes. Commits at every step.

    A store that lost only a part (restored from a backup) gets that part. One that lost nothing is left as it is. Beside a
    rebuild the hops may run as ever: until each is anchored they stop, afterwards they help.

    Args:
        routes: all routes.
        store: the lost one; its service leads to a new, empty database, or to what is left.
        runner: copies the slices.
        recorded_by: who does it, for the ledgers.
        reason: why, for the same.
        accept_losses: goes on although messages are lost that no other store has.
        show_progress: called for each hop that is transferred.

    Raises:
        HistoryLost: something is lost that no other store has, or an upstream store can't send a batch again.
        ContentDiffers: an upstream store has dropped or changed messages of a batch that this store had.
        UnknownHop, StoreUnusable, StoreUnreachable, StoreBusy: see relaybox.errors; run it again.
    """
    started = time.monotonic()
    found = look_at_store(routes, store)
    if found.losses and not accept_losses:
        raise errors.HistoryLost(
            f"store {store.name} can't be rebuilt as it was. {' '.join(found.losses)}",
            next_step="Restore a backup of it first, or accept that with --accept-losses. Nothing was changed.",
        )
    initialise_store(store, routes, recorded_by=recorded_by)
    moved_count = 0
    for hop in _hops_in_order(routes, store):
        reanchor_hop(hop, routes, recorded_by=recorded_by, reason=reason, dry_run=False)
        with show_progress(hop) as progress:
            moved_count += transfer_hop(hop, runner, recorded_by=recorded_by, progress=progress).row_count
    outcomes = {route.name: verify_route(route).outcome for route in routes.routes.values() if store in route.path}
    seconds = time.monotonic() - started
    emit("store_rebuilt", store=store.name, messages=moved_count, losses=len(found.losses), duration_seconds=seconds)
    return replace(found, done=True, moved_count=moved_count, outcomes=outcomes, duration_seconds=seconds)


def look_at_store(routes: Routes, store: Store) -> Rebuild:
    """What a rebuild would bring back, and what it could not. Changes nothing; the store may be an empty database."""
    hops = tuple(_look(store, hop) for hop in _hops_in_order(routes, store))
    losses, doubts = tuple(_losses(routes, store, hops)), dict(_doubts(routes, store, hops))
    return Rebuild(store.name, done=False, hops=hops, losses=losses, doubts=doubts)


def _hops_in_order(routes: Routes, store: Store) -> list[Hop]:
    """What arrives comes first: what leaves is compared with it. Local hops read the outbox and come last."""
    arriving = [hop for hop in routes.hops if hop.destination == store != hop.source]
    return [*arriving, *(hop for hop in routes.hops if hop.source == store)]


def _look(store: Store, hop: Hop) -> HopToRebuild:
    arrives = hop.destination == store != hop.source
    other = hop.source if arrives else hop.destination
    asked = _CONFIRMED if arrives else _PUBLISHED
    known = _PUBLISHED if arrives else _PLANNED
    there = 0 if hop.source == hop.destination else _ask(other, hop, asked)
    try:
        here = _ask(store, hop, known)
    except errors.StoreNotInitialised:
        here = 0
    return HopToRebuild(hop.name, arrives, other.name, there, here)


_CONFIRMED = """
    select (select c.through_position from relaybox_internal.newest_confirmation(h.hop, 'received') c)
    from relaybox_internal.hop_out h where h.hop = %s
"""
_PUBLISHED = "select i.published_position from relaybox_internal.hop_in i where i.hop = %s"
_PLANNED = "select h.log_position from relaybox_internal.hop_out h where h.hop = %s"


_DROPPED = """
    select count(*)
    from relaybox_internal.hop_out h
    cross join lateral relaybox_internal.first_kept_read(h.hop) kept (first_read)
    where h.hop = %s and (
        h.compacted_position > %s
        or exists (
            select from relaybox_internal.batch b, relaybox_internal.batch_slices(b.slices) s
            where b.hop = h.hop and b.last_position > %s and s.first_read < kept.first_read
        )
    )
"""


def _ask(store: Store, hop: Hop, query: str, *arguments: int) -> int:
    """A number that a store knows of a hop; 0 when it does not know the hop."""
    with store_session(store, f"looking at hop {hop.name}", application_name=f"relaybox {hop.name} rebuild") as session:
        return int(session.value(query, hop.name, *arguments) or 0)


def _losses(routes: Routes, store: Store, hops: Sequence[HopToRebuild]) -> Iterator[str]:
    """Messages whose only copy was here: those of its own outbox, and those that an upstream store has dropped since."""
    for found in hops:
        hop = routes.hop(found.hop)
        if (
            found.arrives
            and found.known_count < found.message_count
            and _ask(hop.source, hop, _DROPPED, *[found.known_count] * 2)
        ):
            yield (
                f"Hop {hop.name}: retention at {hop.source.name} has dropped messages that had arrived here. They can't be sent again, "
                f"and no log begins in the middle: only a backup of {store.name} from after then helps."
            )
        if hop.source != store or hop.upstream is not None:
            continue
        if hop.destination == store and found.known_count == 0:
            yield f"Hop {hop.name} is local: whatever its outbox and its log held is in no other store."
        elif found.known_count < found.message_count:
            yield (
                f"Route {hop.route} begins here: of its messages {hop.destination.name} has {found.message_count:,}, which are kept there; "
                f"those that had not been moved are lost, and so are the counters and declarations of its senders."
            )


def _doubts(routes: Routes, store: Store, hops: Sequence[HopToRebuild]) -> Iterator[tuple[str, str]]:
    known = {found.hop: found.known_count for found in hops if found.arrives}
    for hop in routes.hops:
        if hop.destination != store:
            continue
        if hop.name in known and _ask(hop.source, hop, _ADOPTED, known[hop.name]):
            yield (
                hop.stream,
                (
                    f"{hop.source.name} lost history before, and has no plan of batches that it adopted then: "
                    f"what it still has of them comes to other positions"
                ),
            )
        elif hop.order == "causal":
            yield hop.stream, "causal: the order of messages without cause and effect depends on their arrival"
        elif _has_skips(routes, hop):
            yield (
                hop.stream,
                "a gap was skipped by hand: its time decides later stream positions; skip it again, and subscribe its consumers again",
            )


_ADOPTED = """
    select count(*) from relaybox_internal.batch b where b.hop = %s and b.adopted and b.last_position > %s
"""


def _has_skips(routes: Routes, hop: Hop) -> bool:
    """Whether any store of the route had a gap of this stream skipped; a skip goes to all of them."""
    return any(
        _ask(other.destination, other, _SKIPPED) > 0
        for other in routes.route(hop.route).hops
        if other.destination != hop.destination
    )


_SKIPPED = """
    select count(*) from relaybox_internal.skip k
    join relaybox_internal.stream_log l on l.stream_id = k.stream_id
    join relaybox_internal.hop_in i on i.log_id = l.log_id
    where i.hop = %s
"""
