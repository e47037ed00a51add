-- Returns the stream positions from start to through. Each of both is earliest, latest, a stream
-- position or a time of delivery in this store. A stream position at the end is in the range, a
-- time is not: ranges of times that touch share no message and miss none. Raises as
-- start_stream_position().
create or replace function relaybox_internal.stream_positions_between(
    stream_id_ integer, start text, through text, out first_stream_position bigint,
    out last_stream_position bigint
)
language plpgsql stable
as $$
begin
    perform relaybox_internal.require_length('the end', through, 100);
    first_stream_position := relaybox_internal.start_stream_position(stream_id_, start);
    select least(s.last_stream_position, relaybox_internal.start_stream_position(stream_id_,
    coalesce(through, 'latest')) - case when through ~ '^[0-9]+$' then 0 else 1 end)
    into last_stream_position from relaybox_internal.stream s where s.stream_id = stream_id_;
end
$$;
