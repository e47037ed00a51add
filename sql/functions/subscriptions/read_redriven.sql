-- What fetch returns of a lane whose fetched messages are redriven dead letters, or passed messages
-- that are due, in the order of their stream positions.
create or replace function relaybox_internal.read_redriven(lane_cursor relaybox_internal.cursor)
returns table (
    stream_position bigint, lane integer, token text, replayed boolean, attempt integer,
    hop text, log_position bigint, message_id uuid, topic text, sender text, epoch integer,
    index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb,
    sent_at timestamptz
)
language sql stable
as $$
    select
        d.stream_position, d.lane, lane_cursor.token, d.acknowledged_before,
        lane_cursor.fetch_count + d.attempts + coalesce(f.attempts, 0), i.hop, l.log_position, l.message_id,
        l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers,
        l.clock, l.sent_at
    from relaybox_internal.dead_letter d
    join relaybox_internal.hop_in i on i.log_id = d.log_id
    join relaybox_internal.log l on l.log_id = d.log_id and l.log_position = d.log_position
    left join relaybox_internal.failed_attempt f
        on f.subscription_id = d.subscription_id and f.lane = d.lane
        and f.stream_position = d.stream_position
    where d.subscription_id = lane_cursor.subscription_id and d.lane = lane_cursor.lane
        and d.state = 'redriving' and d.stream_position <= lane_cursor.redrive_stream_position
    order by d.stream_position
$$;
