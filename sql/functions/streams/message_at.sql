-- Returns where the message at a stream position is, with its topic, sender and key. No row: there
-- is no such stream position, or it is not kept any more.
create or replace function relaybox_internal.message_at(stream_id_ integer, stream_position_ bigint)
returns table (log_id integer, log_position bigint, topic text, sender text, key text)
language sql stable
set enable_seqscan = off
as $$
    select l.log_id, l.log_position, l.topic, l.sender, l.key
    from relaybox_internal.log_position_at(stream_id_, stream_position_) at
    join relaybox_internal.log l on l.log_id = at.log_id and l.log_position = at.log_position
$$;
