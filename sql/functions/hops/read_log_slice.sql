-- The rows of one slice of a batch that reads a log: positions first_read to last_read, with their
-- positions in the next log. Inlined like read_outbox_slice().
create or replace function relaybox_internal.read_log_slice(
    log_id_ integer, first_read bigint, last_read bigint, first_position bigint
)
returns table (
    log_position bigint, index bigint, epoch integer, message_id uuid, sent_at timestamptz,
    topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea, clock jsonb
)
language sql stable parallel safe
as $$
    select
        l.log_position - first_read + first_position, l.index, l.epoch, l.message_id, l.sent_at,
        l.topic, l.sender, l.key, l.headers, l.payload, l.payload_bytes, l.clock
    from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position >= first_read and l.log_position <= last_read
$$;
