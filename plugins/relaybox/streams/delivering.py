"""What a store delivers of the logs that arrived in it: a stream per route, without duplicates, in the order that the route promises.

Receiving is what happens to a store; delivering is what it decides. Logs stay as they came, so the decision can be made again
by anyone, and every store that has the same log decides alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.log_events import emit

if TYPE_CHECKING:
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession


class _SendersSeen(NamedTuple):
    """Up to which of the origin's snapshots a destination knows the declarations of senders."""

    origin: str
    senders_seen: str | None


class _NewSenders(NamedTuple):
    """Declarations made since then, as text of JSON."""

    through: str
    senders: str
    has_news: bool


class _Decision(NamedTuple):
    """What a store decided about one batch; without a batch there was none to decide about."""

    batch: int | None
    row_count: int
    delivered_count: int
    duplicate_count: int
    set_aside_count: int
    held_after: int
    last_stream_position: int
    in_order: bool


def carry_senders(source: StoreSession, destination: StoreSession, hop: Hop, *, log_id: int) -> None:
    """Copies the declarations of senders that the source knows and the destination doesn't. Commits; idempotent.

    Called when a batch is planned and before it is published: the sender of each of its messages was declared before.

    Raises:
        UnknownHop: the hop's stream is not registered.
        HistoryLost: the source declares a sender otherwise than it did before.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    asking = destination.doing(f"asking which senders of hop {hop.name} are known")
    known = asking.row_if_any(
        _SendersSeen, "select l.origin, l.senders_seen from relaybox_internal.stream_log l where l.log_id = %s", log_id
    )
    if known is None:
        raise errors.UnknownHop(
            f"hop {hop.name} belongs to no stream in store {hop.destination.name}.", next_step="Run: relaybox init"
        )
    source = source.doing(f"reading the senders of hop {hop.name}")
    through, senders, has_news = source.row(
        _NewSenders,
        "select through, senders::text, senders <> '[]' as has_news from relaybox_internal.senders_since(%s, %s)",
        *(known.origin, known.senders_seen),
    )
    source.rollback()
    destination = destination.doing(f"writing the senders of hop {hop.name}")
    if not has_news:
        destination.rollback()
        return
    destination.reach("senders.read")
    destination.call("relaybox_internal.remember_senders", log_id, through, senders)
    destination.reach("senders.written")
    destination.commit_durably("senders")


def deliver_arrived(destination: StoreSession, hop: Hop, *, log_id: int) -> None:
    """Decides on every published batch of a hop that its stream has not decided on. Commits each decision; idempotent.

    Raises:
        UnknownHop: the hop's stream is not registered.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    _deliver_all(destination, hop.name, log_id)


def deliver_undriven(store: StoreSession) -> None:
    """Decides on every published batch of a store whose hop has no driver, also of hops that the file has no more. As deliver_arrived().

    A driver with more to move confirms a batch before it is decided on. If it dies there, and nothing is left to move, no driver comes.
    """
    undriven = store.doing("asking what no driver delivers").rows(_UndrivenLog, _UNDRIVEN)
    store.rollback()
    for log in undriven:
        _deliver_all(store, log.hop, log.log_id)


class _UndrivenLog(NamedTuple):
    hop: str
    log_id: int


_UNDRIVEN = """
select i.hop, i.log_id
from relaybox_internal.hop_in i
join relaybox_internal.stream_log l on l.log_id = i.log_id
where i.published_batch > l.decided_batch and not relaybox_internal.hop_is_driven(i.hop)
order by i.hop
"""


def _deliver_all(destination: StoreSession, hop: str, log_id: int) -> None:
    while _has_work(destination, hop, log_id):
        if not _deliver_next(destination, hop, log_id):
            return
        _announce(destination, hop, log_id)


def _announce(destination: StoreSession, hop: str, log_id: int) -> None:
    """Wakes those who wait for the messages. Not durable: who was not told looks by itself."""
    destination = destination.doing(f"announcing what hop {hop} brought")
    with destination.autocommitting():
        destination.call("relaybox_internal.announce_delivered", log_id)


def _has_work(destination: StoreSession, hop: str, log_id: int) -> bool:
    destination = destination.doing(f"asking what hop {hop} has to deliver")
    has_work = destination.call("relaybox_internal.stream_has_work", log_id)
    destination.rollback()
    return bool(has_work)


def _deliver_next(destination: StoreSession, hop: str, log_id: int) -> bool:
    destination = destination.doing(f"delivering what hop {hop} brought")
    destination.reach("deliver.begin")
    decision = destination.row(_Decision, "select (d).* from (select relaybox_internal.deliver_next(%s) as d) n", log_id)
    destination.reach("deliver.decided")
    destination.commit_durably("deliver")
    if decision.batch is None:
        return False
    emit(
        "batch_delivered",
        hop=hop,
        batch=decision.batch,
        rows=decision.row_count,
        delivered=decision.delivered_count,
        duplicates=decision.duplicate_count,
        set_aside=decision.set_aside_count,
        held=decision.held_after,
        stream_positions_through=decision.last_stream_position,
        in_order=decision.in_order,
    )
    return True
