"""Step 4 of a hop: confirmations, recorded at the source, and how they travel back store by store.

`received`: the next store has the batch durably. `processed`: the subscriptions that the route names have acknowledged it at
the last store. `settled`: the route's policy holds further down. All are watermarks that only grow; a lost one delays cleaning
up and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.hops.publishing import PublishedBatch, ask_destination, durable_arrival
from relaybox.hops.store_ids import require_same_stores
from relaybox.log_events import emit
from relaybox.stores.opening import opened_store
from relaybox.stores.readers.awaited_readers import list_unsubscribed, named_processors
from relaybox.streams.delivering import deliver_arrived
from relaybox.streams.topics import carry_topics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from relaybox.hops.planning import DestinationState
    from relaybox.routes import Hop, Route
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class SettleResult:
    """How far a hop is settled: the last position, and how many messages this call settled anew."""

    hop: str
    through_position: int
    newly_settled: int


class _Watermarks(NamedTuple):
    """The last confirmed position of a hop in each state, as its source knows it."""

    received: int
    received_at: datetime | None
    processed: int
    settled: int


class _Reading(NamedTuple):
    """The position through which something holds, and since when."""

    through_position: int | None
    happened_at: datetime | None


class _Policy(NamedTuple):
    """When a hop is settled, as the newest init wrote it into the source."""

    policy: str
    processed_by: list[str] | None


class _ProcessedReading(NamedTuple):
    """How far the named subscriptions have come; which of them are missing, or read one topic only."""

    through_position: int
    happened_at: datetime | None
    missing: list[str]
    of_one_topic: list[str]


class _Confirmation(NamedTuple):
    """What the destination knows of a hop further down."""

    state: str
    through_position: int
    through_batch: int
    happened_at: datetime


def confirm_received(source: StoreSession, hop: Hop, arrival: PublishedBatch, *, destination_id: str, recorded_by: str) -> None:
    """Records that the destination has a batch. Commits; idempotent.

    Raises:
        HistoryLost, ContentDiffers: G11; the ledger has no such batch, or another under its number, or the hop goes to another store.
    """
    source = source.doing(f"confirming batch {arrival.batch} of hop {hop.name}")
    source.reach("confirm.begin")
    source.call(
        "relaybox_internal.confirm_received",
        *(hop.name, arrival.batch, str(arrival.plan_id), arrival.published_at, recorded_by, destination_id),
    )
    source.reach("confirm.recorded")
    source.commit_durably("confirm")


def confirm_arrived(source: StoreSession, destination: StoreSession, hop: Hop, *, recorded_by: str) -> DestinationState:
    """Asks the destination how far the hop is, and records at the source what is missing there. Commits both sides.

    What a driver published before it died is delivered first: once it is confirmed, no later run would deliver it. A driver that had more
    to move confirms a batch before it is decided on. If it died there, and what was to move is gone meanwhile, this delivers the batch.
    A destination that has published nothing gives an `DestinationState` with batch 0, and nothing is recorded.
    """
    arrived = ask_destination(destination, hop)
    if arrived.batch > 0 and not _is_received(source, hop, arrived):
        deliver_arrived(destination, hop, log_id=arrived.log_id)
        arrival = durable_arrival(destination, hop, arrived)
        confirm_received(source, hop, arrival, destination_id=arrived.store_id, recorded_by=recorded_by)
    elif arrived.batch > 0 and not _is_driven(source, hop):
        deliver_arrived(destination, hop, log_id=arrived.log_id)
    return arrived


def _is_driven(source: StoreSession, hop: Hop) -> bool:
    """Whether a driver is there, which delivers what it publishes."""
    driven = source.value("select relaybox_internal.hop_is_driven(%s)", hop.name)
    source.rollback()
    return bool(driven)


def _is_received(source: StoreSession, hop: Hop, arrived: DestinationState) -> bool:
    """Whether the source has this very arrival confirmed, in a short transaction of its own."""
    source = source.doing(f"reading the confirmations of hop {hop.name}")
    source.call("relaybox_internal.require_writable_primary")
    received = source.value(
        """
        select exists (
            select from relaybox_internal.confirmation c
            join relaybox_internal.batch b on b.hop = c.hop and b.batch = c.through_batch
            where c.hop = %s and c.state = 'received' and c.through_position = %s and b.batch = %s and b.plan_id = %s
        )
        """,
        *(hop.name, arrived.log_position, arrived.batch, str(arrived.plan_id)),
    )
    source.rollback()
    return bool(received)


def settle_hop(route: Route, hop: Hop, *, recorded_by: str) -> SettleResult:
    """Brings the confirmations of one hop up to date from its destination. Commits; idempotent; run by anyone.

    Copies what the destination knows of the hops further down as well, so that the cascade of every batch can be read at
    the origin. When a batch is settled is what the newest init wrote into the stores: the file of the caller may be an older one, or may
    have been edited since. Opens and closes its own sessions.

    Raises:
        NotSubscribed: policy processed names a subscription that the last store has not, or that reads one topic only; what else
            was to confirm is confirmed.
    """
    name = f"relaybox {hop.name} confirm"
    with (
        opened_store(hop.source, application_name=name) as source,
        opened_store(hop.destination, application_name=name) as destination,
    ):
        require_same_stores(source, destination, hop, ask_destination(destination, hop))
        carry_topics(source, destination, hop)
        confirm_arrived(source, destination, hop, recorded_by=recorded_by)
        _record_downstream(source, destination, route, hop, recorded_by=recorded_by)
        settled = _settle(source, destination, _with_policy_of_store(source, hop), recorded_by=recorded_by)
    emit("hop_settled", hop=hop.name, through_position=settled.through_position, newly_settled=settled.newly_settled)
    return settled


def _with_policy_of_store(source: StoreSession, hop: Hop) -> Hop:
    """The hop with the policy of its row at the source; as it is where there is no row: what follows says so."""
    found = source.row_if_any(_Policy, "select policy, processed_by from relaybox_internal.hop_out where hop = %s", hop.name)
    source.rollback()
    return hop if found is None else replace(hop, policy=found.policy, processed_by=tuple(found.processed_by or ()))


def _settle(source: StoreSession, destination: StoreSession, hop: Hop, *, recorded_by: str) -> SettleResult:
    source = source.doing(f"settling hop {hop.name}")
    watermarks = _read_watermarks(source, hop.name)
    log_position, happened_at = _policy_holds_through(destination, hop, watermarks)
    if log_position <= watermarks.settled:
        source.rollback()
        return SettleResult(hop.name, watermarks.settled, 0)
    source.reach("settle.begin")
    if hop.processed_by:
        source.call("relaybox_internal.confirm_processed", hop.name, log_position, happened_at, recorded_by)
    through_position = source.call("relaybox_internal.confirm_settled", hop.name, log_position, happened_at, recorded_by)
    source.reach("settle.recorded")
    source.commit_durably("settle")
    return SettleResult(hop.name, through_position, through_position - watermarks.settled)


def _read_watermarks(source: StoreSession, hop: str) -> _Watermarks:
    return source.row(
        _Watermarks,
        """
        select
            coalesce(max(through_position) filter (where state = 'received'), 0) received,
            max(happened_at) filter (where state = 'received') received_at,
            coalesce(max(through_position) filter (where state = 'processed'), 0) processed,
            coalesce(max(through_position) filter (where state = 'settled'), 0) settled
        from relaybox_internal.confirmation where hop = %s
        """,
        hop,
    )


def _policy_holds_through(destination: StoreSession, hop: Hop, watermarks: _Watermarks) -> tuple[int, datetime | None]:
    """The position through which the hop's policy holds, and since when."""
    if hop.processed_by:
        return _processed_through(destination, hop)
    if hop.policy == "received":
        return watermarks.received, watermarks.received_at
    destination = destination.doing(f"asking how far the hops after {hop.name} are settled")
    after = {*destination.values(_HOPS_AFTER, hop.name), *((hop.downstream,) if hop.downstream else ())}
    settled = [
        destination.row_if_any(_Reading, "select through_position, happened_at from relaybox_internal.settled_reading(%s)", name)
        for name in sorted(after)
    ]
    destination.rollback()
    if not settled:
        return watermarks.received, watermarks.received_at
    found = (
        (0, None) if one is None or one.through_position is None else (one.through_position, one.happened_at) for one in settled
    )
    return min(found, key=lambda one: one[0])


_HOPS_AFTER = """
    select h.hop from relaybox_internal.hop_out h join relaybox_internal.hop_in i on i.log_id = h.reads_log
    where i.hop = %s and h.removed_at is null and h.retired_at is null
"""
"""The hops that read the log of a hop, as the destination knows them: the file may lack one, or have one that no init has made."""


def _processed_through(destination: StoreSession, hop: Hop) -> tuple[int, datetime | None]:
    """How far the subscriptions that the route names are done, durably. Commits at the destination."""
    names = list(hop.processed_by)
    destination = destination.doing(f"asking how far {', '.join(names)} have come")
    log_position, happened_at, missing, of_one_topic = destination.row(
        _ProcessedReading, "select * from relaybox_internal.processed_reading(%s, %s)", hop.name, names
    )
    destination.reach("processed.read")
    destination.commit_durably("processed")
    if missing:
        raise errors.NotSubscribed(
            f"hop {hop.name} settles when {', '.join(names)} have processed it, and store {hop.destination.name} has no "
            f"subscription {', '.join(missing)} to stream {hop.stream}. Nothing more is settled.",
            next_step=_find_next_step(destination, hop, missing[0]),
        )
    if of_one_topic:
        raise errors.NotSubscribed(
            f"hop {hop.name} settles when {', '.join(names)} have processed it, and at store {hop.destination.name} "
            f"{', '.join(of_one_topic)} would acknowledge one topic of stream {hop.stream} for all of them. Nothing more is settled.",
            next_step=(
                f"Name subscriptions to the whole stream. In store {hop.destination.name}, run: "
                f"select relaybox.subscribe('ANOTHER-NAME', '{hop.stream}'); "
                f"put that name into processed_by in place of {of_one_topic[0].split()[0]}, and run: relaybox init"
            ),
        )
    return log_position, happened_at


def _find_next_step(destination: StoreSession, hop: Hop, subscription: str) -> str:
    """How a subscription of processed_by comes back, as retention says it: one that was ended goes on where it was done."""
    readers = [reader for reader in named_processors(hop) if reader.subscription == subscription]
    found = list_unsubscribed(destination, readers)
    destination.rollback()
    return found[0].next_step if found else "It has subscribed since. Run it again"


def _record_downstream(source: StoreSession, destination: StoreSession, route: Route, hop: Hop, *, recorded_by: str) -> None:
    for downstream in _hops_after(route, hop):
        source = source.doing(f"reading what is confirmed of hop {downstream.name}")
        known = _read_watermarks(source, downstream.name)
        source.rollback()
        destination = destination.doing(f"reading the confirmations of hop {downstream.name}")
        news = destination.rows(
            _Confirmation,
            "select * from relaybox_internal.confirmations_after(%s, %s, %s, %s)",
            *(downstream.name, known.received, known.processed, known.settled),
        )
        destination.rollback()
        if news:
            _write_downstream(source, downstream.name, news, recorded_by)


def _hops_after(route: Route, hop: Hop) -> Iterator[Hop]:
    return (other for other in route.hops if other.number > hop.number)


def _write_downstream(source: StoreSession, downstream: str, news: Sequence[_Confirmation], recorded_by: str) -> None:
    source = source.doing(f"recording the confirmations of hop {downstream}")
    source.reach("downstream.begin")
    for state, through_position, through_batch, happened_at in news:  # one row per batch, not per message
        source.call(
            "relaybox_internal.record_downstream", downstream, state, through_position, through_batch, happened_at, recorded_by
        )
    source.reach("downstream.recorded")
    source.commit("downstream")
