-- The stream positions of a stream, one row each, with the log and the position that each has.
create or replace function relaybox_internal.list_stream_positions(
    stream_id_ integer, through_stream_position bigint default 9223372036854775807
)
returns table (stream_position bigint, log_id integer, log_position bigint)
language sql stable
as $$
    select d.first_stream_position + n, d.log_id, d.first_position + n
    from relaybox_internal.delivery d cross join generate_series(0, least(d.last_stream_position,
    through_stream_position) - d.first_stream_position) n
    where d.stream_id = stream_id_ and d.log_positions is null
        and d.first_stream_position <= through_stream_position
    union all
    select d.first_stream_position + u.n - 1, d.log_id, u.at
    from relaybox_internal.delivery d cross join unnest(d.log_positions) with ordinality u (at, n)
    where d.stream_id = stream_id_ and d.log_positions is not null
        and d.first_stream_position + u.n - 1 <= through_stream_position
$$;
