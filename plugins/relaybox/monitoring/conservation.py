"""The law of conservation (G12) as one reads it: what became of each committed message of an outbox, per hop and topic.

Computed by the source from its rows and its ledger (`relaybox.account_for_outbox`), never from counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.routes import Hop

ACCOUNT_SEQS = 20_000
"""Status accounts for so many of an outbox's newest seqs; `relaybox verify` for all, retention for each segment before it is dropped."""


@dataclass(frozen=True)
class TopicAccount:
    """committed = delivered + planned + waiting + unrouted + retired, over the rows that were looked at; all counts are messages.

    Attributes:
        topic: a topic that the hop moves, or moved once.
        committed_count: rows of it.
        delivered_count: in batches that have arrived and are confirmed.
        planned_count: in a batch that is not confirmed.
        waiting_count: in no batch yet.
        unrouted_count: the topic was taken from the route before they were planned; they are kept.
        retired_count: given up on record.
        missing_count: in none of these: a defect.
        doubled_count: in two of these: a defect.
    """

    topic: str
    committed_count: int
    delivered_count: int
    planned_count: int
    waiting_count: int
    unrouted_count: int
    retired_count: int
    missing_count: int
    doubled_count: int


def read_account(cursor: Any, hop: Hop) -> tuple[TopicAccount, ...]:
    """Accounts for the newest messages of the outbox that a first hop reads, by topic. One statement in the caller's transaction."""
    cursor.execute(
        """
        select a.*
        from relaybox.outbox_seq q
        cross join lateral relaybox.account_for_outbox(%s, greatest(q.last_value - %s, 0), q.last_value) a
        """,
        (hop.name, ACCOUNT_SEQS),
    )
    return tuple(TopicAccount(*row) for row in cursor.fetchall())


def find_broken(hop: Hop, account: tuple[TopicAccount, ...]) -> Iterator[errors.ConservationBroken]:
    """An error per topic of which messages are in none or in two places of the hop's ledger."""
    for topic in account:
        if topic.missing_count or topic.doubled_count:
            yield errors.ConservationBroken(
                f"hop {hop.name}: of {topic.committed_count} committed messages of topic {topic.topic} at {hop.source.name}, "
                f"{topic.missing_count} are in no batch and in no backlog, {topic.doubled_count} are in two.",
                next_step=f"List them with: relaybox verify {hop.route}",
            )
