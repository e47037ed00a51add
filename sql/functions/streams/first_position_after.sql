-- Returns the lowest position of a log among the stream positions of its stream after a given one;
-- null if there is none.
create or replace function relaybox_internal.first_position_after(
    stream_id_ integer, log_id_ integer, stream_position_ bigint
)
returns bigint
language sql stable
as $$
    select least(
        (
            select min(
                d.first_position + greatest(0, stream_position_ + 1 - d.first_stream_position)
            )
            from relaybox_internal.delivery d
            where d.stream_id = stream_id_ and d.log_id = log_id_ and d.log_positions is null
                and d.last_stream_position > stream_position_
        ),
        (
            select min(u.at)
            from relaybox_internal.delivery d
            cross join unnest(
                d.log_positions[greatest(1, stream_position_ - d.first_stream_position + 2):]
            ) u (at)
            where d.stream_id = stream_id_ and d.log_id = log_id_ and d.log_positions is not null
                and d.last_stream_position > stream_position_
        )
    )
$$;
