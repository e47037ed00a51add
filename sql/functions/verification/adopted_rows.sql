-- Positions of a log whose plan its source lost, hashed as adopted_content() hashes the source's
-- rows.
create or replace function relaybox_internal.adopted_rows(
    log_id_ integer, first bigint, last bigint
)
returns table (log_position bigint, message_id uuid, sender text, message_hash text)
language sql stable
as $$
    select
        l.log_position, l.message_id, l.sender,
        relaybox_internal.message_hash(
            l.message_id, l.topic, l.sender, l.epoch, case when l.epoch > 0 then l.index end,
            l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        )
    from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position >= first and l.log_position <= last
$$;
