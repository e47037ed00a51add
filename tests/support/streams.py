"""A stream with chosen messages in one store: what consumers read, without the hop that brings it."""

from __future__ import annotations

from typing import Any

from tests.support.world import World

STORE = "hub"
STREAM = "flights"


def deliver(world: World, count: int, *, senders: int = 3, topic: str = "flights", backwards: bool = False) -> None:
    """Puts `count` more messages m<stream position> into the stream, of senders s1, s2 ... in turn.

    Args:
        world: of the test.
        count: how many.
        senders: how many senders there are.
        topic: of all of them.
        backwards: the log has them the other way round: they are delivered as a list of positions, not as a run.
    """
    first = _last(world) + 1
    world.query(STORE, "select relaybox_internal.ensure_log_segments(1, %s)", first + count)
    stream_positions = list(range(first, first + count))
    log_positions = stream_positions[::-1] if backwards else stream_positions
    world.query(
        STORE,
        """
        insert into relaybox_internal.log (log_id, epoch, log_position, index, message_id, sent_at, topic, sender, key, payload)
        select 1, 0, log_position, log_position, gen_random_uuid(), clock_timestamp(), %s, 's' || 1 + (stream_position - 1) %% %s, 'k' || stream_position %% 7, 'm' || stream_position
        from unnest(%s::bigint[], %s::bigint[]) as r (stream_position, log_position)
        """,
        topic,
        senders,
        stream_positions,
        log_positions,
    )
    world.query(
        STORE,
        """
        with told as (update relaybox_internal.stream set last_stream_position = %s where stream = %s returning stream_id,
        last_stream_position),
        decided as (
            insert into relaybox_internal.decision (
                log_id, batch, first_arrival_seq, row_count, duplicate_count, set_aside_count, delivered_count, held_after, last_stream_position, in_order
            )
            select 1, last_stream_position, last_stream_position, 1, 0, 0, 1, 0, last_stream_position, true from told
        )
        insert into relaybox_internal.delivery (stream_id, first_stream_position, last_stream_position, log_id, first_position,
        log_positions)
        select stream_id, %s, %s, 1, %s, %s from told
        """,
        stream_positions[-1],
        STREAM,
        first,
        stream_positions[-1],
        first,
        log_positions if backwards else None,
    )


def _last(world: World) -> int:
    return int(world.value(STORE, "select last_stream_position from relaybox_internal.stream where stream = %s", STREAM))


def stream_positions(rows: list[tuple[Any, ...]]) -> list[int]:
    """The stream positions of fetched or read rows: their first column."""
    return [row[0] for row in rows]


def fetch(
    world: World,
    count: int,
    subscription: str = "billing",
    *,
    acked: int | None = None,
    worker: str = "a",
    lane: int | None = None,
) -> list[tuple[Any, ...]]:
    """Stream position, lane, replayed, attempt, sender and payload of a fetch, committed."""
    return world.query(
        STORE,
        "select stream_position, lane, replayed, attempt, sender, payload"
        " from relaybox.fetch(%s, %s, %s, %s, only_lane => %s, worker => %s)",
        subscription,
        count,
        acked,
        None if acked is None else token(world, subscription, worker=worker, lane=lane),
        lane,
        worker,
    )


def token(
    world: World, subscription: str = "billing", *, worker: str = "a", lane: int | None = None, store: str = STORE
) -> str | None:
    """The token of the newest fetch of a worker, as that fetch returned it; None: it has not fetched."""
    found = world.query(
        store,
        """
        select c.token from relaybox_internal.cursor c join relaybox_internal.subscription s using (subscription_id)
        where s.subscription = %s and s.ended_at is null and c.worker = %s and c.lane = coalesce(%s, c.lane)
        order by c.moved_at desc limit 1
        """,
        subscription,
        worker,
        lane,
    )
    return found[0][0] if found else None


def ack(
    world: World,
    stream_position: int,
    subscription: str = "billing",
    *,
    worker: str = "a",
    lane: int | None = None,
    store: str = STORE,
) -> int:
    """Acknowledges, in another session, what a worker has fetched; committed."""
    verification = token(world, subscription, worker=worker, lane=lane, store=store)
    return int(world.value(store, "select relaybox.ack(%s, %s, %s)", subscription, stream_position, verification))


def nack(
    world: World,
    stream_position: int,
    reason: str = "no",
    subscription: str = "billing",
    *,
    worker: str = "a",
    lane: int | None = None,
    store: str = STORE,
) -> bool:
    """Refuses a message that a worker has fetched; whether it is a dead letter now."""
    verification = token(world, subscription, worker=worker, lane=lane, store=store)
    return bool(world.value(store, "select relaybox.nack(%s, %s, %s, %s)", subscription, stream_position, reason, verification))
