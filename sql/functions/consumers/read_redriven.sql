-- What fetch gives of a lane whose fetched messages are redriven dead letters, in the order of their places.
create or replace function relaybox.read_redriven(lane_cursor relaybox.cursor)
returns table (
    place bigint, lane integer, token text, replayed boolean, attempt integer, hop text, "position" bigint, message_id uuid, topic text, sender text,
    epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language sql stable
as $$
    select
        d.place, d.lane, lane_cursor.token, d.acknowledged_before, lane_cursor.fetch_count + d.attempts, i.hop, l.position, l.message_id,
        l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
    from relaybox.dead_letter d
    join relaybox.hop_in i on i.hop_id = d.hop_id
    join relaybox.log l on l.hop_id = d.hop_id and l.position = d.position
    where d.subscription_id = lane_cursor.subscription_id and d.lane = lane_cursor.lane and d.state = 'redriving'
        and d.place <= lane_cursor.redrive_place
    order by d.place
$$;
