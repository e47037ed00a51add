"""What a proof of delivery compares: the same messages in two stores, slice by slice. Decisions only, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox.hops.ledgers import Destination, PlannedBatch, Source, contradictions
from relaybox.proofs.carried import Run, carry
from relaybox.proofs.reading import Pair, SliceRead, StoreRead

if TYPE_CHECKING:
    from relaybox.hops.batches import Slice
    from relaybox.routes import Hop, Route, Store


@dataclass(frozen=True)
class Ledgers:
    """A hop with what both of its stores wrote down about it."""

    hop: Hop
    source: Source
    destination: Destination

    @property
    def published(self) -> Iterator[tuple[PlannedBatch, Slice]]:
        """Every slice of the batches that both ledgers know, whose messages the source still has; adopted ones are compared by message."""
        arrived = {batch.batch for batch in self.destination.published}
        kept = self.source.first_kept_read
        return (
            (batch, slice_)
            for batch in self.source.planned
            if batch.batch in arrived and not batch.adopted
            for slice_ in batch.slices
            if slice_.first_read >= kept
        )


@dataclass(frozen=True)
class Piece:
    """The same messages in two stores: as the hop reads them, and as they stand in the log."""

    batch: int
    slice: int
    row_count: int
    source: SliceRead
    destination: SliceRead


@dataclass(frozen=True)
class Leg:
    """Two stores and what is compared between them.

    Attributes:
        name: the hop, or the route for its whole way.
        log_id: the log at the destination.
        through_position: the last position that is published there.
        planned_position: the last one that any batch was planned for; a row beyond it is a stranger.
        highest_position: the last one with a row, when the destination was asked.
        no_longer_kept: published messages that can't be compared: retention has dropped them, or a part of their slice, in a store.
    """

    name: str
    source: Store
    destination: Store
    log_id: int
    through_position: int
    planned_position: int
    highest_position: int
    in_flight: int
    pieces: tuple[Piece, ...]
    contradictions: tuple[str, ...]
    no_longer_kept: int = 0

    @property
    def row_count(self) -> int:
        """Messages that are compared."""
        return sum(piece.row_count for piece in self.pieces)

    def pair(self, piece: Piece) -> Pair:
        """A piece as its two stores have it."""
        return StoreRead(self.source, piece.source), StoreRead(self.destination, piece.destination)


def hop_leg(ledgers: Ledgers) -> Leg:
    """A hop's source against its destination."""
    source, destination = ledgers.source, ledgers.destination
    pieces = tuple(
        _piece(ledgers, batch, slice_, destination.log_id)
        for batch, slice_ in ledgers.published
        if slice_.first_position >= destination.first_kept_position
    )
    return Leg(
        name=ledgers.hop.name,
        source=ledgers.hop.source,
        destination=ledgers.hop.destination,
        log_id=destination.log_id,
        through_position=destination.published_position,
        planned_position=source.planned_position,
        highest_position=destination.highest_position,
        in_flight=max(0, source.planned_position + source.waiting_count - destination.published_position),
        pieces=pieces,
        contradictions=tuple(contradictions(source, destination)),
        no_longer_kept=_no_longer_kept(pieces, ledgers, destination, destination.published_position),
    )


def whole_leg(route: Route, ledgers: Sequence[Ledgers]) -> Leg:
    """The origin against the last store: the first hop's slices are looked for where the hops after it put them.

    Of a slice that these hops tore apart only the beginning is compared here; they are proved one by one as well.
    """
    first, last = ledgers[0], ledgers[-1]
    runs = carry([(one.source, one.destination) for one in ledgers[1:]], first.source.planned_position)
    through = sum(run.last - run.first + 1 for run in runs)
    pieces = tuple(
        _piece(first, batch, slice_, last.destination.log_id, run)
        for batch, slice_ in first.published
        for run in runs
        if run.first <= slice_.first_position <= run.last
        and slice_.first_position + run.shift >= last.destination.first_kept_position
    )
    return Leg(
        name=route.name,
        source=route.path[0],
        destination=route.path[-1],
        log_id=last.destination.log_id,
        through_position=last.destination.published_position,
        planned_position=last.source.planned_position,
        highest_position=last.destination.highest_position,
        in_flight=max(0, first.source.planned_position + first.source.waiting_count - through),
        pieces=pieces,
        contradictions=(),
        no_longer_kept=_no_longer_kept(pieces, first, last.destination, through),
    )


def _no_longer_kept(pieces: Sequence[Piece], ledgers: Ledgers, destination: Destination, through: int) -> int:
    """Of the positions up to `through`: those that no piece compares, and that were not adopted; 0 while nothing was dropped."""
    if ledgers.source.first_kept_read == destination.first_kept_position == 1:
        return 0
    adopted = sum(batch.last_position - batch.first_position + 1 for batch in ledgers.source.planned if batch.adopted)
    return max(0, through - adopted - sum(piece.row_count for piece in pieces))


def _piece(ledgers: Ledgers, batch: PlannedBatch, slice_: Slice, log_id: int, run: Run | None = None) -> Piece:
    last = slice_.last_position if run is None else min(run.last, slice_.last_position)
    shift = 0 if run is None else run.shift
    return Piece(
        batch=batch.batch,
        slice=slice_.slice,
        row_count=last - slice_.first_position + 1,
        source=SliceRead(
            ledgers.source.reads_log,
            batch.lower,
            batch.upper,
            batch.topics,
            slice_.first_read,
            slice_.last_read,
            slice_.first_position,
            last,
        ),
        destination=SliceRead.of_log(log_id, slice_.first_position, last, shift=shift),
    )
