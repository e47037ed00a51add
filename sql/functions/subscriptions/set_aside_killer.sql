-- Sets aside a message that seems to kill its worker: it was fetched alone, and neither
-- acknowledged nor refused.
create or replace function relaybox_internal.set_aside_killer(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription,
    stream_position bigint, worker text
)
returns void
language sql volatile
as $$
    select relaybox_internal.set_aside(
        lane_cursor, subscription, stream_position, 'killed_its_worker',
        format('fetched %s times without ack or nack', lane_cursor.fetch_count),
        lane_cursor.fetch_count, coalesce(lane_cursor.worker, worker)
    )
$$;
