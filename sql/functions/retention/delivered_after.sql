-- When the first batch that delivers beyond a stream position was decided: since then something waits for who stands there. Null: none.
create or replace function relaybox_internal.delivered_after(stream_id_ integer, stream_position_ bigint) returns timestamptz
language sql stable
as $$
    select min(newer.decided_at)
    from relaybox_internal.stream_log l
    cross join lateral (
        select d.decided_at from relaybox_internal.decision d where d.log_id = l.log_id
            and d.last_stream_position > stream_position_ order by d.last_stream_position limit 1
    ) newer
    where l.stream_id = stream_id_
$$;
