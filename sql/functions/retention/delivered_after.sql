-- When the first batch that delivers beyond a place of a stream was decided: since then something waits for who stands there. Null: none.
create or replace function relaybox.delivered_after(stream_id_ integer, place_ bigint) returns timestamptz
language sql stable
as $$
    select min(newer.decided_at)
    from relaybox.stream_log l
    cross join lateral (
        select d.decided_at from relaybox.decision d where d.hop_id = l.hop_id and d.last_place > place_ order by d.last_place limit 1
    ) newer
    where l.stream_id = stream_id_
$$;
