-- Returns the highest stream position of a log's positions up to a given one; 0 if there is none.
create or replace function relaybox_internal.last_stream_position_through(
    stream_id_ integer, log_id_ integer, through_position bigint
)
returns bigint
language sql stable
as $$
    select greatest(
        0,
        (
            select max(
                least(
                    d.last_stream_position,
                    d.first_stream_position + through_position - d.first_position
                )
            )
            from relaybox_internal.delivery d
            where d.stream_id = stream_id_ and d.log_id = log_id_ and d.log_positions is null
                and d.first_position <= through_position
        ),
        (
            select max(d.first_stream_position + u.n - 1)
            from relaybox_internal.delivery d
            cross join unnest(d.log_positions) with ordinality u (at, n)
            where d.stream_id = stream_id_ and d.log_id = log_id_ and d.log_positions is not null
                and u.at <= through_position
        )
    )
$$;
