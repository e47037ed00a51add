"""What is wrong between the ledgers of a hop, or between them and relaybox.yaml, with the numbers of both sides: decisions only, no I/O.

Each ledger is compared with itself where it is (relaybox_internal.source_contradictions and its neighbours).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from relaybox.amounts import amount

if TYPE_CHECKING:
    from relaybox.hops.ledgers import Destination, LedgerArrival, LedgerBatch, LedgerConfirmation, Source
    from relaybox.routes import Hop


def find_contradictions(hop: Hop, source: Source, destination: Destination, confirmed: LedgerConfirmation) -> Iterator[str]:
    """What is wrong with a hop's ledgers. The destination was read before the source, and what is confirmed before both.

    So the destination may know less than the source planned, and more than the source had confirmed; never otherwise.
    """
    yield from source.contradictions
    yield from destination.contradictions
    yield from _gaps("ledger of the source", source.planned, source)
    yield from _gaps("ledger of the destination", destination.published, destination)
    yield from _reading_gaps(source)
    planned = {batch.batch: batch for batch in source.planned}
    for published in destination.published:
        if published.batch > source.compacted_batch:
            yield from _batch_contradictions(hop, planned, published)
    yield from _registration_contradictions(hop, source, destination)
    yield from confirmed_and_gone(hop.name, hop.source.name, hop.destination.name, destination, confirmed)
    if destination.generation > source.generation:
        yield (
            f"{hop.destination.name} is in generation {destination.generation} of the hop, {hop.source.name} in generation "
            f"{source.generation}: the source lost history{_see_missing(hop)}"
        )


def _see_missing(hop: Hop) -> str:
    return f". See what is missing with: relaybox reanchor {hop.name}"


def confirmed_and_gone(
    hop: str, knower: str, holder: str, destination: Destination, confirmed: LedgerConfirmation
) -> Iterator[str]:
    """A batch that a store knows as received must be there, unless its loss is on record and it is sent again."""
    if confirmed.batch > max(destination.published_batch, confirmed.resend_through) or (
        confirmed.log_position > destination.published_position and confirmed.batch > confirmed.resend_through
    ):
        yield (
            f"hop {hop} is received through batch {confirmed.batch}, position {confirmed.log_position}, as {knower} has confirmed; "
            f"{holder} ends at batch {destination.published_batch}, position {destination.published_position}: "
            f"{amount(confirmed.log_position - destination.published_position, 'message is', 'messages are')} confirmed and not there"
        )


def copied_confirmations(
    hop: str, knower: str, copied: LedgerConfirmation, source: str, own: LedgerConfirmation
) -> Iterator[str]:
    """A store knows of a later hop only what that hop's own source had known before."""
    if copied.log_position > own.log_position:
        yield (
            f"hop {hop} is received through position {copied.log_position}, as {knower} knows from {source}, "
            f"where it is received through position {own.log_position}"
        )


def _gaps(where: str, batches: Sequence[LedgerBatch | LedgerArrival], compacted: Source | Destination) -> Iterator[str]:
    batch_wanted, position_wanted = compacted.compacted_batch + 1, compacted.compacted_position + 1
    if batches and (batches[0].batch, batches[0].first_position) != (batch_wanted, position_wanted):
        yield (
            f"{where}: begins with batch {batches[0].batch} at position {batches[0].first_position}, "
            f"expected batch {batch_wanted} at position {position_wanted}"
        )
    for before, batch in pairwise(batches):
        if batch.batch != before.batch + 1:
            yield f"{where}: batch {before.batch} is followed by batch {batch.batch}"
        elif batch.first_position != before.last_position + 1:
            yield (
                f"{where}: batch {before.batch} ends at position {before.last_position}, "
                f"batch {batch.batch} begins at {batch.first_position}"
            )


def _reading_gaps(source: Source) -> Iterator[str]:
    """A hop that reads a log must read every position of it once, wherever it puts it."""
    if source.reads_log is None:
        return
    read_through = source.compacted_read
    for batch in source.planned:
        if batch.reads_after != read_through:
            yield f"ledger of the source: batch {batch.batch} reads after position {batch.reads_after}, expected {read_through}"
        read_through = batch.reads_through
    slices = sorted((slice_.first_read, slice_.last_read) for batch in source.planned for slice_ in batch.slices)
    next_read = source.compacted_read + 1
    for first, last in slices:
        if first < next_read:
            yield f"ledger of the source: positions {first} to {min(last, next_read - 1)} of the log are read twice"
        elif next_read < first and next_read <= read_through:
            yield f"ledger of the source: positions {next_read} to {min(first - 1, read_through)} of the log are read by no batch"
        next_read = max(next_read, last + 1)
    if next_read <= read_through:
        yield f"ledger of the source: positions {next_read} to {read_through} of the log are read by no batch"


def _batch_contradictions(hop: Hop, planned: Mapping[int, LedgerBatch], published: LedgerArrival) -> Iterator[str]:
    plan = planned.get(published.batch)
    if plan is None:
        what = f"batch {published.batch} is published but not in the ledger of the source"
        yield f"{what}: the source lost history{_see_missing(hop)}"
        return
    if plan.plan_id != published.plan_id:
        yield f"batch {published.batch} is published with plan {published.plan_id}, the source has plan {plan.plan_id}"
    if (plan.first_position, plan.last_position) != (published.first_position, published.last_position):
        yield (
            f"batch {published.batch} is published at positions {published.first_position} to {published.last_position}, "
            f"planned were {plan.first_position} to {plan.last_position}"
        )
    if plan.adopted:
        return
    if (published.receipt_count, published.slice_count) != (len(plan.slices), len(plan.slices)):
        yield (
            f"batch {published.batch} is published with "
            f"{amount(published.receipt_count, 'receipt')} of {amount(len(plan.slices), 'slice')}, "
            f"the arrival says {published.slice_count}"
        )
    elif published.receipt_rows != published.last_position - published.first_position + 1:
        yield (
            f"batch {published.batch} is published with receipts for {amount(published.receipt_rows, 'row')} at positions "
            f"{published.first_position} to {published.last_position}"
        )
    if plan.cluster != published.cluster:
        yield f"batch {published.batch} arrived from {_cluster(published)}, it was planned on {_cluster(plan)}"


def _cluster(batch: LedgerBatch | LedgerArrival) -> str:
    return f"cluster {batch.cluster[0]}, timeline {batch.cluster[1]}" if batch.cluster else "an unknown cluster"


def _registration_contradictions(hop: Hop, source: Source, destination: Destination) -> Iterator[str]:
    """What `relaybox init` wrote into both stores must be what relaybox.yaml says."""
    here, extra = source.registered, set[str]()
    if hop.topics_by_subscription:
        extra = set(here.topics) - set(hop.topics)
    for store, says, found, wanted in (
        (hop.source.name, "goes to", here.destination, hop.destination.name),
        (hop.destination.name, "comes from", destination.source, hop.source.name),
        (
            hop.destination.name,
            "has a stream with topics",
            _listed(set(destination.topics) & set(hop.topics)),
            _listed(hop.topics),
        ),
        (hop.source.name, "has policy", here.policy, hop.policy),
        (hop.source.name, "is processed by", _listed(here.processed_by), _listed(hop.processed_by)),
        (hop.source.name, "reads topics", _listed(set(here.topics) - extra), _listed(() if hop.upstream else hop.topics)),
    ):
        if found != wanted:
            yield f"at {store} the hop {says} {found}, relaybox.yaml says {wanted}. Run: relaybox init"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
