"""Sealing segments of the outbox: they take no rows any more, so a hop that has read them never looks at them again.

What hops may leave out is decided and made safe in the store (sql/functions/stores/seal_outbox_segments.sql). Here is remembered
which transactions were writing when a segment was found full, so that none of them is refused: it is sealed when they have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relaybox.log_events import emit

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession

SEALED_AT_ONCE = 20
"""So many segments seal_outbox_segments() seals in one transaction."""

SEALING_TRANSACTIONS = 10
"""So many transactions one call of seal_segments() commits at most: the next call goes on, and the driver has other work too."""


class WritersNoted(NamedTuple):
    """Who was writing to the outbox when its sequence stood at a seq. Both None: no segment is left to seal."""

    through_seq: int | None
    writers: list[str] | None

    @property
    def is_waiting(self) -> bool:
        """Whether a segment is full and those who wrote then are waited for."""
        return self.through_seq is not None


NOTHING_NOTED = WritersNoted(None, None)


class _Sealed(NamedTuple):
    through_seq: int | None
    writers: list[str] | None
    sealed_count: int


def seal_segments(source: StoreSession, noted: WritersNoted = NOTHING_NOTED) -> WritersNoted:
    """Seals full segments of the outbox whose writers have ended, 200 at most. Commits.

    Args:
        source: a session outside any transaction.
        noted: what the call before returned. A first call seals only if nobody writes at that moment.

    Returns:
        For the next call: who still writes.

    Raises:
        StoreUnreachable, StoreBusy, StoreUnusable: what was sealed stays so.
    """
    session = source.doing("sealing outbox segments")
    for _ in range(SEALING_TRANSACTIONS):
        sealed = session.row(
            _Sealed, "select * from relaybox_internal.seal_outbox_segments(%s, %s::text[])", noted.through_seq, noted.writers
        )
        session.reach("outbox_seal.sealed")
        session.commit("outbox_seal")
        has_more = sealed.sealed_count == SEALED_AT_ONCE
        if sealed.sealed_count:
            emit("outbox_segments_sealed", store=source.store, segments=sealed.sealed_count, has_more=has_more)
        if not has_more:
            break
    return WritersNoted(sealed.through_seq, sealed.writers)
