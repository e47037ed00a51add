-- The messages of a list of a log's positions, in the order of the list: one lookup each. The first
-- one is at first_stream_position of its stream. Inlined like read_position_range().
create or replace function relaybox_internal.read_position_list(
    log_id_ integer, first_stream_position bigint, log_positions bigint[]
)
returns table (
    stream_position bigint, log_position bigint, message_id uuid, topic text, sender text,
    epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb,
    clock jsonb, sent_at timestamptz
)
language sql stable
as $$
    select
        first_stream_position + wanted.number - 1, l.log_position, l.message_id, l.topic, l.sender,
        l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
    from unnest(log_positions) with ordinality wanted (at, number)
    join relaybox_internal.log l on l.log_id = log_id_ and l.log_position = wanted.at
    order by wanted.number
$$;
