"""What a store delivers of the logs that arrived in it: a stream per route, without duplicates, in the order that the route promises.

Receiving is what happens to a store; delivering is what it decides. Logs stay as they came, so the decision can be made again
by anyone, and every store that has the same log decides alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2.extras import NamedTupleCursor

from relaybox import errors
from relaybox.events import emit
from relaybox.failpoints import reach
from relaybox.stores.connections import commit_durably, one_row, store_errors

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Hop


def carry_senders(source: Connection, destination: Connection, hop: Hop, *, log_id: int) -> None:
    """Copies the declarations of senders that the source knows and the destination doesn't. Commits; idempotent.

    Called when a batch is planned and before it is published: whoever sent one of its messages had declared itself before.

    Raises:
        UnknownHop: the hop's stream is not registered.
        HistoryLost: the source declares a sender otherwise than it did before.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    with store_errors(hop.destination.name, f"asking which senders of hop {hop.name} are known"), destination.cursor() as cursor:
        cursor.execute("select l.origin, l.senders_seen from relaybox.stream_log l where l.hop_id = %s", (log_id,))
        row = one_row(cursor)
    if row is None:
        raise errors.UnknownHop(
            f"hop {hop.name} belongs to no stream in store {hop.destination.name}.", next_step="Run: relaybox init"
        )
    origin, seen = row
    with store_errors(hop.source.name, f"reading the senders of hop {hop.name}"), source.cursor() as cursor:
        cursor.execute("select through, senders::text, senders <> '[]' from relaybox.senders_since(%s, %s)", (origin, seen))
        through, senders, has_news = one_row(cursor)
        source.rollback()
    with store_errors(hop.destination.name, f"writing the senders of hop {hop.name}"), destination.cursor() as cursor:
        if not has_news:
            destination.rollback()
            return
        reach("senders.read", destination)
        cursor.execute("select relaybox.remember_senders(%s, %s, %s)", (log_id, through, senders))
        reach("senders.written", destination)
        commit_durably(destination, "senders")


def deliver_arrived(destination: Connection, hop: Hop, *, log_id: int) -> None:
    """Decides on every published batch of a hop that its stream has not decided on. Commits each decision; idempotent.

    Raises:
        UnknownHop: the hop's stream is not registered.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    while _has_work(destination, hop, log_id) and _deliver_next(destination, hop, log_id):
        pass


def _has_work(destination: Connection, hop: Hop, log_id: int) -> bool:
    with store_errors(hop.destination.name, f"asking what hop {hop.name} has to deliver"), destination.cursor() as cursor:
        cursor.execute("select relaybox.stream_has_work(%s)", (log_id,))
        (has_work,) = one_row(cursor)
        destination.rollback()
    return bool(has_work)


def _deliver_next(destination: Connection, hop: Hop, log_id: int) -> bool:
    with store_errors(hop.destination.name, f"delivering what hop {hop.name} brought"):
        reach("deliver.begin", destination)
        with destination.cursor(cursor_factory=NamedTupleCursor) as cursor:
            cursor.execute("select (d).* from (select relaybox.deliver_next(%s) as d) n", (log_id,))
            decision = one_row(cursor)
        reach("deliver.decided", destination)
        commit_durably(destination, "deliver")
    if decision.batch is None:
        return False
    emit(
        "batch_delivered",
        hop=hop.name,
        batch=decision.batch,
        rows=decision.row_count,
        delivered=decision.delivered_count,
        duplicates=decision.duplicate_count,
        set_aside=decision.set_aside_count,
        held=decision.held_after,
        places_through=decision.last_place,
        in_order=decision.in_order,
    )
    return True
