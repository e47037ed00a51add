-- The places of a stream, one row each, with the log and the position that stand there.
create or replace function relaybox.stream_places(stream_id_ integer, through_place bigint default 9223372036854775807)
returns table (place bigint, hop_id integer, "position" bigint)
language sql stable
as $$
    select d.first_place + n, d.hop_id, d.first_position + n
    from relaybox.delivery d cross join generate_series(0, least(d.last_place, through_place) - d.first_place) n
    where d.stream_id = stream_id_ and d.positions is null and d.first_place <= through_place
    union all
    select d.first_place + u.n - 1, d.hop_id, u.at
    from relaybox.delivery d cross join unnest(d.positions) with ordinality u (at, n)
    where d.stream_id = stream_id_ and d.positions is not null and d.first_place + u.n - 1 <= through_place
$$;
