"""A stream with chosen messages in one store: what consumers read, without the hop that brings it."""

from __future__ import annotations

from typing import Any

from tests.support.world import World

STORE = "hub"
STREAM = "flights"


def deliver(world: World, count: int, *, senders: int = 3, topic: str = "flights", backwards: bool = False) -> None:
    """Puts `count` more messages m<place> into the stream, of senders s1, s2 ... in turn.

    Args:
        world: of the test.
        count: how many.
        senders: how many senders there are.
        topic: of all of them.
        backwards: the log has them the other way round: they are delivered as a list of positions, not as a run.
    """
    first = _last(world) + 1
    world.query(STORE, "select relaybox.ensure_log_segments(1, %s)", first + count)
    places = list(range(first, first + count))
    positions = places[::-1] if backwards else places
    world.query(
        STORE,
        """
        insert into relaybox.log (hop_id, epoch, position, index, message_id, sent_at, topic, sender, key, payload)
        select 1, 0, position, position, gen_random_uuid(), clock_timestamp(), %s, 's' || 1 + (place - 1) %% %s, 'k' || place %% 7, 'm' || place
        from unnest(%s::bigint[], %s::bigint[]) as r (place, position)
        """,
        topic,
        senders,
        places,
        positions,
    )
    world.query(
        STORE,
        """
        with told as (update relaybox.stream set last_place = %s where stream = %s returning stream_id, last_place),
        decided as (
            insert into relaybox.decision (
                hop_id, batch, first_taken, row_count, duplicate_count, set_aside_count, delivered_count, held_after, last_place, in_order
            )
            select 1, last_place, last_place, 1, 0, 0, 1, 0, last_place, true from told
        )
        insert into relaybox.delivery (stream_id, first_place, last_place, hop_id, first_position, positions)
        select stream_id, %s, %s, 1, %s, %s from told
        """,
        places[-1],
        STREAM,
        first,
        places[-1],
        first,
        positions if backwards else None,
    )


def _last(world: World) -> int:
    return int(world.value(STORE, "select last_place from relaybox.stream where stream = %s", STREAM))


def places(rows: list[tuple[Any, ...]]) -> list[int]:
    """The places of fetched or read rows: their first column."""
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
    """Place, lane, replayed, attempt, sender and payload of a fetch, committed."""
    return world.query(
        STORE,
        "select place, lane, replayed, attempt, sender, payload"
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
        select c.token from relaybox.cursor c join relaybox.subscription s using (subscription_id)
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
    place: int,
    subscription: str = "billing",
    *,
    worker: str = "a",
    lane: int | None = None,
    store: str = STORE,
) -> int:
    """Acknowledges, in another session, what a worker has fetched; committed."""
    proof = token(world, subscription, worker=worker, lane=lane, store=store)
    return int(world.value(store, "select relaybox.ack(%s, %s, %s)", subscription, place, proof))


def nack(
    world: World,
    place: int,
    reason: str = "no",
    subscription: str = "billing",
    *,
    worker: str = "a",
    lane: int | None = None,
    store: str = STORE,
) -> bool:
    """Refuses a message that a worker has fetched; whether it is a dead letter now."""
    proof = token(world, subscription, worker=worker, lane=lane, store=store)
    return bool(world.value(store, "select relaybox.nack(%s, %s, %s, %s)", subscription, place, reason, proof))
