"""Verification of what a hop had delivered before its source lost the ledger of it: compared by message, since no plan is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.verification.defects import Defect, DefectKind, Row
from relaybox.verification.reading import SliceRead, fetch_rows, read_rows

if TYPE_CHECKING:
    from relaybox.hops.ledgers import LedgerBatch
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class AdoptedContent:
    """Messages of adopted batches: all at the destination, and those of them that the source has no more."""

    message_count: int
    ghosts: tuple[Row, ...]
    defects: tuple[Defect, ...]

    @property
    def changed_count(self) -> int:
        """Of these R and UR speak, as of all that was lost; of the other adopted ones they do not."""
        return sum(defect.kind is DefectKind.CHANGED for defect in self.defects)


NOTHING_ADOPTED = AdoptedContent(0, (), ())


def read_at_destination(log_id: int, planned: Sequence[LedgerBatch], *, of_log: bool) -> Callable[[StoreSession], list[Row]]:
    """The question for the rows of all adopted batches; `of_log`: of a hop that reads a log (adopted_rows.sql)."""

    def ask(session: StoreSession) -> list[Row]:
        spans = [(batch.first_position, batch.last_position) for batch in planned if batch.adopted]
        if not of_log:
            return [row for first, last in spans for row in read_rows(SliceRead.of_log(log_id, first, last))(session)]
        query = "select * from relaybox_internal.adopted_rows(%s, %s, %s)"
        return [row for first, last in spans for row in fetch_rows(session, query, log_id, first, last)]

    return ask


class _Hash(NamedTuple):
    log_position: int
    message_hash: str


def read_at_source(
    hop: str, rows: Sequence[Row], reads: Sequence[int | None]
) -> Callable[[StoreSession], tuple[Mapping[int, set[str]], set[int]]]:
    """The question for the hashes of these messages as the source has them, by position, and for the listed ghosts.

    An id that was sent repeatedly has a hash for each of its messages.
    `reads`: where each stands in the log that the hop reads; None: the source lost it, or the hop reads the outbox.
    """

    def ask(session: StoreSession) -> tuple[Mapping[int, set[str]], set[int]]:
        hashes: dict[int, set[str]] = defaultdict(set)
        found = session.rows(
            _Hash,
            "select log_position, message_hash from relaybox_internal.adopted_content(%s, %s, %s::uuid[], %s::bigint[])",
            *(hop, [row.log_position for row in rows], [str(row.message_id) for row in rows], list(reads)),
        )
        for log_position, message_hash in found:
            hashes[log_position].add(message_hash)
        return hashes, set(session.values('select "log_position" from relaybox_internal.ghost where hop = %s', hop))

    return ask


def compare_adopted(
    rows: Sequence[Row], hashes: Mapping[int, set[str]], listed: set[int], *, source_is_whole: bool
) -> AdoptedContent:
    """A message that the source has must be the same; one that it has not must be a listed ghost, or dropped by retention."""
    gone = [row for row in rows if row.log_position not in hashes]
    changed = [row for row in rows if row.log_position in hashes and row.message_hash not in hashes[row.log_position]]
    return AdoptedContent(
        message_count=len(rows),
        ghosts=tuple(row for row in gone if row.log_position in listed),
        defects=(
            *(Defect(DefectKind.CHANGED, row.message_id, row.sender, row.log_position, row.log_position) for row in changed),
            *(
                Defect(DefectKind.UNEXPECTED, row.message_id, row.sender, None, row.log_position)
                for row in gone
                if source_is_whole and row.log_position not in listed
            ),
        ),
    )
