-- Returns where the message at a stream position is in the logs: nothing of the message, so that
-- viewers may ask. No row: there is no such stream position, or it is not kept any more. Inlined.
create or replace function relaybox_internal.log_position_at(
    stream_id_ integer, stream_position_ bigint
)
returns table (log_id integer, log_position bigint)
language sql stable
as $$
    select d.log_id, coalesce(d.log_positions[stream_position_ - d.first_stream_position + 1],
        d.first_position + stream_position_ - d.first_stream_position)
    from relaybox_internal.delivery d
    where d.stream_id = stream_id_ and d.last_stream_position >= stream_position_
    order by d.last_stream_position
    limit 1
$$;
