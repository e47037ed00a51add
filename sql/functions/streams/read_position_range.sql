-- The messages of a range of a log's positions: one range scan. The first one is at
-- first_stream_position of its stream. Inlined, so that the caller's conditions on a message apply
-- where it is read.
create or replace function relaybox_internal.read_position_range(
    log_id_ integer, first_stream_position bigint, first_position bigint, last_position bigint
)
returns table (
    stream_position bigint, log_position bigint, message_id uuid, topic text, sender text,
    epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb,
    clock jsonb, sent_at timestamptz
)
language sql stable
as $$
    select
        first_stream_position + l.log_position - first_position, l.log_position, l.message_id,
        l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock,
        l.sent_at
    from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position >= first_position
        and l.log_position <= last_position
    order by l.log_position
$$;
