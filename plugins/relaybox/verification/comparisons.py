"""What a verification of delivery compares: the same messages in two stores, slice by slice. Decisions only, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from relaybox.hops.ledgers import Destination, LedgerBatch, LedgerConfirmation, Source
from relaybox.verification.carried import Run, carry
from relaybox.verification.contradictions import confirmed_and_gone, copied_confirmations, find_contradictions
from relaybox.verification.reading import Pair, SliceRead, StoreRead

if TYPE_CHECKING:
    from relaybox.hops.batches import Slice
    from relaybox.routes import Hop, Route, Store


@dataclass(frozen=True)
class Ledgers:
    """A hop with what both of its stores wrote down about it.

    Attributes:
        confirmed: by hop, what the source knew to be received, of this hop and of those after it, before anything else was read.
    """

    hop: Hop
    source: Source
    destination: Destination
    confirmed: Mapping[str, LedgerConfirmation] = field(default_factory=dict)

    def due(self, through_position: int) -> Iterator[tuple[LedgerBatch, Slice]]:
        """Every slice that must have arrived by a position, whose messages the source still has; adopted ones are compared by message."""
        kept = self.source.first_kept_read
        return (
            (batch, slice_)
            for batch in self.source.planned
            if batch.first_position <= through_position and not batch.adopted
            for slice_ in batch.slices
            if slice_.first_read >= kept and slice_.first_position <= through_position
        )

    def due_position(self, confirmed: LedgerConfirmation) -> int:
        """The last position that must be at the destination: what is published there, and what was confirmed to be."""
        is_sent_again = confirmed.batch <= max(confirmed.resend_through, self.source.resend_through)
        return max(self.destination.published_position, 0 if is_sent_again else confirmed.log_position)

    def confirmed_of(self, hop: Hop) -> LedgerConfirmation:
        return self.confirmed.get(hop.name, LedgerConfirmation())


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
        through_position: the last position that is published there, or was confirmed to be.
        planned_position: the last one that any batch was planned for; a row beyond it is a stranger.
        highest_position: the last one with a row, when the destination was asked.
        reads_outbox: the source's messages are those of its outbox, each of which must be read once.
        adopted: of a whole way: the positions that a hop on it adopted; what changed there is told by the hops one by one.
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
    adopted: tuple[Run, ...] = ()
    reads_outbox: bool = True

    @property
    def row_count(self) -> int:
        """Messages that are compared."""
        return sum(piece.row_count for piece in self.pieces)

    def is_adopted(self, log_position: int | None) -> bool:
        """Whether a hop on the way adopted the message at this position: its index may be another one at both ends."""
        return log_position is not None and any(run.first <= log_position <= run.last for run in self.adopted)

    def pair(self, piece: Piece) -> Pair:
        """A piece as its two stores have it."""
        return StoreRead(self.source, piece.source), StoreRead(self.destination, piece.destination)


def hop_leg(ledgers: Ledgers) -> Leg:
    """A hop's source against its destination."""
    source, destination = ledgers.source, ledgers.destination
    confirmed = ledgers.confirmed_of(ledgers.hop)
    through = ledgers.due_position(confirmed)
    pieces = tuple(
        _piece(ledgers, batch, slice_, destination.log_id)
        for batch, slice_ in ledgers.due(through)
        if slice_.first_position >= destination.first_kept_position
    )
    return Leg(
        name=ledgers.hop.name,
        source=ledgers.hop.source,
        destination=ledgers.hop.destination,
        log_id=destination.log_id,
        through_position=through,
        planned_position=source.planned_position,
        highest_position=destination.highest_position,
        in_flight=max(0, source.planned_position + source.waiting_count - through),
        pieces=pieces,
        contradictions=tuple(find_contradictions(ledgers.hop, source, destination, confirmed)),
        no_longer_kept=_no_longer_kept(pieces, ledgers, destination, through),
        reads_outbox=source.reads_log is None,
    )


def whole_leg(route: Route, ledgers: Sequence[Ledgers]) -> Leg:
    """The origin against the last store: the first hop's slices are looked for where the hops after it put them.

    Of a slice that these hops tore apart only the beginning is compared here; they are proved one by one as well.
    """
    first, last = ledgers[0], ledgers[-1]
    due = last.due_position(first.confirmed_of(last.hop))
    stages = [
        (one.source, replace(one.destination, published_position=one.due_position(first.confirmed_of(one.hop))))
        for one in ledgers[1:]
    ]
    runs = carry(stages, first.source.planned_position)
    through = sum(run.last - run.first + 1 for run in runs)
    pieces = tuple(
        _piece(first, batch, slice_, last.destination.log_id, run)
        for batch, slice_ in first.due(first.source.planned_position)
        for run in runs
        if run.first <= slice_.first_position <= run.last
        and slice_.first_position + run.shift >= last.destination.first_kept_position
    )
    return Leg(
        name=route.name,
        source=route.path[0],
        destination=route.path[-1],
        log_id=last.destination.log_id,
        through_position=due,
        planned_position=last.source.planned_position,
        highest_position=last.destination.highest_position,
        in_flight=max(0, first.source.planned_position + first.source.waiting_count - through),
        pieces=pieces,
        contradictions=tuple(_confirmations_along(ledgers)),
        adopted=tuple(run for run in runs if run.is_adopted),
        no_longer_kept=_no_longer_kept(pieces, first, last.destination, through),
    )


def _confirmations_along(ledgers: Sequence[Ledgers]) -> Iterator[str]:
    """What stores know of hops that do not leave them: no more than those that these hops leave, and no more than has arrived."""
    for later in ledgers[1:]:
        own = later.confirmed_of(later.hop)
        for one in ledgers:
            copied = one.confirmed_of(later.hop)
            if one.hop.number < later.hop.number:
                yield from copied_confirmations(later.hop.name, one.hop.source.name, copied, later.hop.source.name, own)
                again = max(own.resend_through, later.source.resend_through)
                yield from confirmed_and_gone(
                    *(later.hop.name, one.hop.source.name, later.hop.destination.name),
                    later.destination,
                    replace(copied, resend_through=again),
                )


def _no_longer_kept(pieces: Sequence[Piece], ledgers: Ledgers, destination: Destination, through: int) -> int:
    """Of the positions up to `through`: those that no piece compares, and that were not adopted; 0 while nothing was dropped."""
    if ledgers.source.first_kept_read == destination.first_kept_position == 1:
        return 0
    adopted = sum(batch.last_position - batch.first_position + 1 for batch in ledgers.source.planned if batch.adopted)
    return max(0, through - adopted - sum(piece.row_count for piece in pieces))


def _piece(ledgers: Ledgers, batch: LedgerBatch, slice_: Slice, log_id: int, run: Run | None = None) -> Piece:
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
