-- The lowest position of a log among the places of its stream beyond one; null: there is none.
create or replace function relaybox.first_position_after(stream_id_ integer, log_id integer, place_ bigint) returns bigint
language sql stable
as $$
    select least(
        (
            select min(d.first_position + greatest(0, place_ + 1 - d.first_place)) from relaybox.delivery d
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is null and d.last_place > place_
        ),
        (
            select min(u.at)
            from relaybox.delivery d
            cross join unnest(d.positions[greatest(1, place_ - d.first_place + 2):]) u (at)
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is not null and d.last_place > place_
        )
    )
$$;
