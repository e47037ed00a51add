-- When the first batch with a stream position beyond the given one was decided: since then messages
-- wait for a cursor at this stream position. Null: none waits.
create or replace function relaybox_internal.delivered_after(
    stream_id_ integer, stream_position_ bigint
)
returns timestamptz
language sql stable
as $$
    select min(newer.decided_at)
    from relaybox_internal.stream_log l
    cross join lateral (
        select d.decided_at from relaybox_internal.decision d
        where d.log_id = l.log_id and d.last_stream_position > stream_position_
        order by d.last_stream_position limit 1
    ) newer
    where l.stream_id = stream_id_
$$;
