-- The highest place of a stream at which a position of a log up to one stands; 0: none does.
create or replace function relaybox.last_place_through(stream_id_ integer, log_id integer, through_position bigint) returns bigint
language sql stable
as $$
    select greatest(
        0,
        (
            select max(least(d.last_place, d.first_place + through_position - d.first_position)) from relaybox.delivery d
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is null and d.first_position <= through_position
        ),
        (
            select max(d.first_place + u.n - 1)
            from relaybox.delivery d
            cross join unnest(d.positions) with ordinality u (at, n)
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is not null and u.at <= through_position
        )
    )
$$;
