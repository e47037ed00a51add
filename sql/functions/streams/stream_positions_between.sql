-- Returns the stream positions from start to through, of what the store keeps, as
-- positions_in_stream() does. Raises as start_in_stream().
create or replace function relaybox_internal.stream_positions_between(
    stream_id_ integer, start text, through text, out first_stream_position bigint,
    out last_stream_position bigint
)
language sql stable
as $$
    select b.first_stream_position, b.last_stream_position
    from relaybox_internal.stream s
    cross join relaybox_internal.positions_in_stream(s, start, through) b
    where s.stream_id = stream_id_
$$;
