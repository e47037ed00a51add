"""Whether the two ledgers of a hop are still one history: what its source says of itself, against what its destination has.

A store that went back in time (a restore, a failover with a lost tail, a reload) contradicts its neighbour or its own ledger. Drivers
find that out when they plan; this asks without moving anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.stores.sessions.fingerprints import ClusterFingerprint, read_fingerprint

if TYPE_CHECKING:
    from relaybox.hops.planning import DestinationState
    from relaybox.routes import Hop, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class HistoryGap:
    """Which store lost history, how that shows (a sentence without its full stop), and what to do.

    Attributes:
        may_be_attested: only the cluster is another one; what it has goes on where the ledgers end.
        is_other_store: the store is another database than before, which explains every other difference.
    """

    store: str
    what: str
    next_step: str
    may_be_attested: bool = False
    is_other_store: bool = False

    def as_error(self, hop: Hop, outcome: str = "") -> errors.HistoryLost:
        """The error of who met it; `outcome` says what became of their work, as in "Nothing was moved."."""
        return errors.HistoryLost(
            f"hop {hop.name} {hop.source.name}->{hop.destination.name}: {self.what}. {outcome}".rstrip(),
            next_step=self.next_step,
        )


@dataclass(frozen=True)
class PublishedEnd:
    """The newest batch that a destination has published of a hop, 0 for none, with its plan; and the plans of slices copied since.

    Attributes:
        store_id: of the destination.
        source_id: of the store that the hop came from until now; None: not recorded yet.
    """

    generation: int
    batch: int
    plan_id: str | None
    copied_plan_ids: tuple[str, ...]
    store_id: str
    source_id: str | None


def published_end(arrived: DestinationState) -> PublishedEnd:
    """The same, of what a destination answered to `ask_destination`."""
    plan_id = None if arrived.plan_id is None else str(arrived.plan_id)
    copied = tuple(map(str, arrived.copied_plan_ids))
    return PublishedEnd(arrived.generation, arrived.batch, plan_id, copied, arrived.store_id, arrived.source_id)


class LedgerContinuity(NamedTuple):
    """What a hop's source says of itself (read_ledger), against which its cluster and its destination are compared.

    Attributes:
        store_id: of the source.
        destination_id: of the store that the hop went to until now; None: not recorded yet.
    """

    reloaded: bool
    lower_xmax: str
    generation: int
    planned_batch: int
    received_batch: int
    resend_through: int
    compacted_batch: int
    arrived_plan_id: str | None
    next_plan_id: str | None
    read_through: int
    source_log_position: int | None
    system_identifier: int
    timeline: int
    is_standby: bool
    store_id: str
    destination_id: str | None


_LEDGER_CONTINUITY = """
    select a.hop, c.*, pg_is_in_recovery() as is_standby, s.store_id::text, h.destination_id::text
    from unnest(%s::text[], %s::bigint[]) a (hop, arrived_batch)
    cross join lateral relaybox_internal.ledger_continuity(a.hop, a.arrived_batch) c
    cross join relaybox_internal.store s
    join relaybox_internal.hop_out h on h.hop = a.hop
"""


def read_ledger(source: StoreSession, hop: Hop, arrived_batch: int) -> LedgerContinuity | None:
    """Asks a hop's source, after its destination was asked. None: the hop does not leave the store."""
    return _read_ledgers(source, {hop.name: arrived_batch}).get(hop.name)


def _read_ledgers(source: StoreSession, arrived_batches: Mapping[str, int]) -> dict[str, LedgerContinuity]:
    asked = (list(arrived_batches), list(arrived_batches.values()))
    return source.rows_by(LedgerContinuity, "hop", _LEDGER_CONTINUITY, *asked)


def find_gap(source: StoreSession, hop: Hop, published: PublishedEnd) -> HistoryGap | None:
    """Asks a hop's source, after its destination was asked, in a short transaction. None: the ledgers agree, or go on agreeing."""
    return find_gaps_of_hops(source, [(hop, published)]).get(hop.name)


def find_gaps_of_hops(source: StoreSession, published: Sequence[tuple[Hop, PublishedEnd]]) -> dict[str, HistoryGap]:
    """The same of hops that leave one store, in two statements: a gap for each hop whose ledgers do not agree, by its name."""
    ledgers = _read_ledgers(source, {hop.name: end.batch for hop, end in published})
    # what a standby would say of its timeline is its primary's; the plan and the confirmations are replicated
    asks_cluster = any(not ledger.is_standby for ledger in ledgers.values())
    here = read_fingerprint(source) if asks_cluster else None
    source.rollback()
    found = {hop.name: list(find_gaps(hop, ledgers[hop.name], here, end)) for hop, end in published if hop.name in ledgers}
    # another cluster that has lost something is not to be attested
    return {hop: min(gaps, key=lambda gap: gap.may_be_attested) for hop, gaps in found.items() if gaps}


def find_gaps(
    hop: Hop, ledger: LedgerContinuity, here: ClusterFingerprint | None, published: PublishedEnd
) -> Iterator[HistoryGap]:
    """How the ledger of a hop's source contradicts its cluster, None: not asked, and its destination."""
    source, destination = hop.source.name, hop.destination.name
    yield from find_other_stores(hop, ledger, published)
    if ledger.reloaded:
        yield HistoryGap(
            source, f"{source} was loaded from a dump: its rows may carry transaction numbers of another cluster", _look(hop)
        )
    went_back = here is not None and int(here.next_xid) < int(ledger.lower_xmax)
    if here is not None and (went_back or (here.system_identifier, here.timeline) != (ledger.system_identifier, ledger.timeline)):
        yield HistoryGap(
            source,
            f"its ledger was written by cluster {ledger.system_identifier} on timeline {ledger.timeline} with transactions below "
            f"{ledger.lower_xmax}; {source} is cluster {here.system_identifier} on timeline {here.timeline} with next transaction "
            f"{here.next_xid}: {source} was restored, promoted or replaced",
            _look(hop)
            if went_back
            else f'If {source} lost nothing: relaybox attest {source} --reason "...". Else: relaybox reanchor {hop.name}',
            may_be_attested=not went_back,
        )
    if published.generation > ledger.generation:
        yield lost_generation(hop, ledger.generation, published.generation)
    if published.batch > ledger.planned_batch:
        yield lost_plan(hop, ledger.planned_batch, published.batch)
    if published.batch > ledger.compacted_batch and ledger.arrived_plan_id != published.plan_id:
        theirs = f"{destination} has published batch {published.batch} with plan {published.plan_id}"
        yield HistoryGap(source, f"{theirs}, {source} has plan {ledger.arrived_plan_id}: {source} lost history", _look(hop))
    # a batch that arrived since the destination was asked may be gone from the ledger already
    is_due = published.generation == ledger.generation and published.batch >= ledger.compacted_batch
    if is_due and (lost_plans := set(published.copied_plan_ids) - {ledger.next_plan_id}):
        theirs = f"{destination} has slices of batch {published.batch + 1} with plan {', '.join(sorted(lost_plans))}"
        mine = f"has plan {ledger.next_plan_id}" if ledger.next_plan_id else "has not planned it"
        yield HistoryGap(source, f"{theirs}, {source} {mine}: {source} lost history", _look(hop))
    if ledger.source_log_position is not None and ledger.source_log_position < ledger.read_through:
        yield lost_log(hop, ledger.read_through, ledger.source_log_position)


def find_other_stores(hop: Hop, ledger: LedgerContinuity, published: PublishedEnd) -> Iterator[HistoryGap]:
    """Which end of the hop is another database than before. A hop that has moved nothing may still change its stores."""
    source, destination = hop.source.name, hop.destination.name
    if ledger.planned_batch > 0 and ledger.destination_id not in (None, published.store_id):
        yield HistoryGap(
            destination,
            f"{destination} is store {published.store_id}; until now the hop went to store {ledger.destination_id}, which has confirmed "
            f"batch {ledger.received_batch}",
            _correct_connection(hop, hop.destination),
            is_other_store=True,
        )
    has_arrived = published.batch > 0 or published.copied_plan_ids
    if has_arrived and published.source_id not in (None, ledger.store_id):
        yield HistoryGap(
            source,
            f"{source} is store {ledger.store_id}; until now the hop came from store {published.source_id}, of which {destination} has "
            f"published batch {published.batch}",
            _correct_connection(hop, hop.source),
            is_other_store=True,
        )


def _correct_connection(hop: Hop, store: Store) -> str:
    return (
        f"If the connection of {store.name} leads to the wrong database, correct it. If {store.name} was lost and made anew: "
        f"relaybox rebuild {store.name}. Else: relaybox reanchor {hop.name}"
    )


def lost_generation(hop: Hop, known: int, published: int) -> HistoryGap:
    """The destination is in a newer generation than the source knows."""
    source = hop.source.name
    mine = f"{source} is in generation {known} of it, {hop.destination.name} in generation {published}"
    return HistoryGap(source, f"{mine}: {source} lost history", _look(hop))


def lost_plan(hop: Hop, planned_batch: int, published_batch: int) -> HistoryGap:
    """The destination has a batch that the source has not planned."""
    source = hop.source.name
    ends = f"the ledger of {source} ends at batch {planned_batch}, {hop.destination.name} has published batch {published_batch}"
    return HistoryGap(source, f"{ends}: {source} lost history", _look(hop))


def lost_batches(hop: Hop, received_batch: int, published_batch: int) -> HistoryGap:
    """The destination has not got a batch any more that it had confirmed."""
    destination = hop.destination.name
    confirmed = f"{hop.source.name} has batch {received_batch} confirmed, {destination} ends at batch {published_batch}"
    return HistoryGap(destination, f"{confirmed}: {destination} lost history", _look(hop))


def lost_log(hop: Hop, read_through: int, source_log_position: int) -> HistoryGap:
    """The log that the hop reads ends before what it has read of it."""
    source = hop.source.name
    return HistoryGap(
        source,
        f"it has read the log of {source} through position {read_through}, which ends at {source_log_position}: {source} lost history",
        f"First repair the hop before it, {hop.upstream}. {_look(hop)}",
    )


def unfinished_reanchor(hop: Hop, known: int, published: int) -> HistoryGap:
    """The source is in a newer generation than the destination: reanchor wrote to one of the two only."""
    mine = f"{hop.source.name} is in generation {known} of it, {hop.destination.name} in generation {published}"
    return HistoryGap(hop.destination.name, f"{mine}: a reanchor has not ended", f"Run again: relaybox reanchor {hop.name}")


def _look(hop: Hop) -> str:
    return f"See what is missing with: relaybox reanchor {hop.name}"
