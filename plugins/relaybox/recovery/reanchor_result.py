"""What reanchoring a hop found, and what is done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Ghost:
    """A message that the destination has and the source lost."""

    log_position: int
    message_id: str
    sender: str
    topic: str


@dataclass(frozen=True)
class HeldIndexes:
    """Indexes of a sender that ghosts have: the destination sets aside what the source sends with one of them later.

    Attributes:
        first_index, last_index: the smallest and the largest of them; not every index between need be one.
        undelivered_count: messages that the hop reads next and that have one of them.
    """

    sender: str
    epoch: int
    ghost_count: int
    first_index: int
    last_index: int
    undelivered_count: int


@dataclass(frozen=True)
class ReanchorResult:
    """What was found, and what is done about it (or would be).

    Attributes:
        cause: how that shows, in the words of `relaybox status` and of the transfer that stopped; None: nothing shows.
        may_be_attested: only the source's cluster is another one, and all that arrived is in its ledger: if it lost nothing,
            `relaybox attest` is enough.
        loss: which side lost history; `none`: the ledgers agree and there is nothing to do; `both` when the destination lost what the
            source had adopted.
        common_batch: the newest batch that both ledgers know as the same.
        arrived_batch: the newest batch that the destination has.
        adopted_count: messages at the destination that the source's ledger does not know.
        ghosts: those of them that the source does not have either.
        held_indexes: by sender that numbers its messages, the indexes of its ghosts.
        undelivered_count: messages of the outbox, or of the log that the hop reads, that the new generation delivers first.
        removed_count: messages of slices that the destination has of a batch that it never published: no consumer could read them. They are
            removed; what the source still has of them is copied anew.
        resend_count: batches that are sent again because the destination lost them.
        other_stores: those of the two stores that are other databases than before; the hop records them as its own.
    """

    hop: str
    loss: Literal["none", "source", "destination", "both"]
    generation: int
    common_batch: int
    arrived_batch: int
    adopted_count: int = 0
    ghosts: tuple[Ghost, ...] = ()
    undelivered_count: int = 0
    removed_count: int = 0
    resend_count: int = 0
    cause: str | None = None
    may_be_attested: bool = False
    other_stores: tuple[str, ...] = ()
    held_indexes: tuple[HeldIndexes, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.loss != "none" or bool(self.other_stores)
