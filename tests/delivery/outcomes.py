"""What a store's stream has made of its logs, and what the brute force makes of the same logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.delivery.brute import Declaration, Row, Stream

Query = Callable[..., list[tuple[Any, ...]]]
"""A statement and its arguments -> its rows."""

Deliveries = list[tuple[str, int]]
"""Logs and positions."""


@dataclass(frozen=True)
class Outcome:
    """`stalled`: (sender, epoch) -> the position beyond which its messages wait unlisted."""

    delivered: Deliveries
    duplicates: Deliveries
    dead_letters: dict[tuple[str, int], str]
    held: Deliveries
    stalled: dict[tuple[str, int], int] = field(default_factory=dict)


def wanted(brute: Stream) -> Outcome:
    """What the brute force says."""
    return Outcome(
        [row.stream_position for row in brute.delivered],
        sorted(row.stream_position for row in brute.duplicates),
        {row.stream_position: reason for row, reason in brute.dead_letters.items()},
        sorted(held.row.stream_position for held in brute.held),
    )


def read_outcome(query: Query, stream: str) -> Outcome:
    """What the store says."""
    delivered = query(
        """
        select i.hop, coalesce(d.log_positions[n + 1], d.first_position + n)
        from relaybox_internal.delivery d join relaybox_internal.stream s using (stream_id) join relaybox_internal.hop_in i using (log_id),
            generate_series(0, d.last_stream_position - d.first_stream_position) n
        where s.stream = %s order by d.first_stream_position + n
        """,
        stream,
    )
    of_stream = "join relaybox_internal.hop_in i using (log_id) join relaybox_internal.stream_log using (log_id) join relaybox_internal.stream s on s.stream_id = stream_log.stream_id"
    duplicates = query(
        f"select i.hop, unnest(d.duplicates) from relaybox_internal.decision d {of_stream} where s.stream = %s", stream
    )
    dead_letters = query(
        f"select i.hop, d.log_position, d.reason from relaybox_internal.dead_letter d {of_stream} where s.stream = %s", stream
    )
    held = query(f"select i.hop, h.log_position from relaybox_internal.held h {of_stream} where s.stream = %s", stream)
    stalled = query(
        """
        select t.sender, t.epoch, t.stalled_after from relaybox_internal.sender_state t join relaybox_internal.stream s using (stream_id)
        where s.stream = %s and t.stalled_after is not null
        """,
        stream,
    )
    return Outcome(
        delivered,
        sorted(duplicates),
        {(log, log_position): reason for log, log_position, reason in dead_letters},
        sorted(held),
        {(sender, epoch): after for sender, epoch, after in stalled},
    )


def decide_again(query: Query, stream: str) -> Stream:
    """Has the brute force decide on what a store has in its logs, in the order in which the store has decided on it."""
    ((order, window),) = query("select delivery_order, message_id_window from relaybox_internal.stream where stream = %s", stream)
    logs = query(
        (
            "select i.hop, l.origin from relaybox_internal.stream_log l join relaybox_internal.stream s using (stream_id) "
            "join relaybox_internal.hop_in i using (log_id) where s.stream = %s"
        ),
        stream,
    )
    brute = Stream(order, dict(logs), message_id_window=window)
    brute.declare(
        *[
            Declaration(origin, sender, epoch, kind, declared_at.timestamp())
            for origin, sender, epoch, kind, declared_at in query(
                "select origin, sender, epoch, kind, declared_at from relaybox_internal.sender"
            )
        ]
    )
    brute.take_all(
        Row(log, log_position, sender, epoch, index, sent_at.timestamp(), message_id, tuple(content), clock)
        for log, log_position, sender, epoch, index, sent_at, message_id, clock, *content in query(
            """
            select i.hop, m.log_position, m.sender, m.epoch, m.index, m.sent_at, m.message_id, m.clock, m.topic, m.key, m.payload, m.payload_bytes
            from relaybox_internal.stream s
            join relaybox_internal.stream_log l using (stream_id)
            join relaybox_internal.hop_in i using (log_id)
            join relaybox_internal.decision d using (log_id)
            join relaybox_internal.arrival a using (log_id, batch)
            join relaybox_internal.log m on m.log_id = a.log_id and m.log_position >= a.first_position and m.log_position <= a.last_position
            where s.stream = %s order by d.first_arrival_seq + m.log_position - a.first_position
            """,
            stream,
        )
    )
    return brute
