-- The first stream position to read for a start, of what the store keeps. Raises as
-- start_in_stream().
create or replace function relaybox_internal.start_stream_position(
    stream_id_ integer, start text
)
returns bigint
language sql stable
as $$
    select relaybox_internal.start_in_stream(s, start)
    from relaybox_internal.stream s where s.stream_id = stream_id_
$$;
