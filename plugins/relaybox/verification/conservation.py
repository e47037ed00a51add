"""The law of conservation (G12) as one reads it: what became of each committed message of an outbox, per hop and topic.

Computed by the source from its rows and its ledger (`relaybox_internal.account_for_outbox`), never from counters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from relaybox import errors
from relaybox.verification.defects import Defect, DefectKind

if TYPE_CHECKING:
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession

LAST_SEQ = 9223372036854775806

ACCOUNT_SEQS = 20_000
"""Status accounts for this many of an outbox's newest seqs; `relaybox verify` for all, retention for each segment before it is dropped."""


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

    @property
    def is_broken(self) -> bool:
        return self.missing_count > 0 or self.doubled_count > 0

    def __str__(self) -> str:
        """Both sides of the law."""
        return (
            f"topic {self.topic}: of {self.committed_count} committed messages {self.delivered_count} are delivered, "
            f"{self.planned_count} planned, {self.waiting_count} wait, {self.unrouted_count} are unrouted, {self.retired_count} given up; "
            f"{self.missing_count} are in none of these, {self.doubled_count} in two"
        )


@dataclass(frozen=True)
class Conservation:
    """The law over the whole outbox, and each message that breaks it: in none, or in two."""

    account: tuple[TopicAccount, ...]
    unbatched: tuple[Defect, ...]
    doubled: tuple[Defect, ...]

    @property
    def contradictions(self) -> tuple[str, ...]:
        return tuple(str(topic) for topic in self.account if topic.is_broken)


NOTHING_SENT = Conservation((), (), ())


class _Unaccounted(NamedTuple):
    message_id: str
    sender: str
    entry_count: int


def read_conservation(session: StoreSession, hop: str) -> Conservation:
    """Accounts for all that the outbox keeps, and names what breaks the law; the rows are read again only for that."""
    session.execute("set transaction isolation level repeatable read")
    account = session.rows(TopicAccount, "select * from relaybox_internal.account_for_outbox(array[%s], 0, %s)", hop, LAST_SEQ)
    broken: dict[DefectKind, list[Defect]] = {DefectKind.UNBATCHED: [], DefectKind.DOUBLED: []}
    if any(topic.is_broken for topic in account):
        query = "select message_id, sender, entry_count from relaybox_internal.unaccounted_messages(%s, 0, %s)"
        for message_id, sender, entry_count in session.rows(_Unaccounted, query, hop, LAST_SEQ):
            kind = DefectKind.DOUBLED if entry_count else DefectKind.UNBATCHED
            broken[kind].append(Defect(kind, UUID(message_id), sender, None, None))
    return Conservation(tuple(account), tuple(broken[DefectKind.UNBATCHED]), tuple(broken[DefectKind.DOUBLED]))


def read_accounts(session: StoreSession, hops: Sequence[Hop]) -> dict[str, tuple[TopicAccount, ...]]:
    """Accounts for the newest messages of an outbox, for each first hop, by topic. One statement in the caller's transaction."""
    query = """
        select a.*
        from relaybox.outbox_seq q
        cross join lateral relaybox_internal.account_for_outbox(%s, greatest(q.last_value - %s, 0), q.last_value) a
    """
    found = session.groups_by(TopicAccount, "hop", query, [hop.name for hop in hops], ACCOUNT_SEQS)
    return {hop.name: tuple(found.get(hop.name, ())) for hop in hops}


def find_broken(hop: Hop, account: tuple[TopicAccount, ...]) -> Iterator[errors.ConservationBroken]:
    """An error per topic of which messages are in none or in two entries of the hop's ledger."""
    for topic in account:
        if topic.is_broken:
            yield errors.ConservationBroken(
                f"hop {hop.name}: of {topic.committed_count} committed messages of topic {topic.topic} at {hop.source.name}, "
                f"{topic.missing_count} are in no batch and in no backlog, {topic.doubled_count} are in two.",
                next_step=f"List them with: relaybox verify {hop.route}",
            )
