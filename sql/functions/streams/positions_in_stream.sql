-- Returns the stream positions from start to through. Each of both is earliest, latest, a stream
-- position or a time of delivery in this store. A stream position at the end is in the range, a
-- time is not: ranges of times that touch share no message and miss none. What is kept begins where
-- the given row of the stream says. Raises as start_in_stream().
create or replace function relaybox_internal.positions_in_stream(
    stream relaybox_internal.stream, start text, through text, out first_stream_position bigint,
    out last_stream_position bigint
)
language plpgsql stable
as $$
begin
    perform relaybox_internal.require_length('the end', through, 100);
    first_stream_position := relaybox_internal.start_in_stream(stream, start);
    last_stream_position := least(
        stream.last_stream_position,
        relaybox_internal.start_in_stream(stream, coalesce(through, 'latest'))
        - case when through ~ '^[0-9]+$' then 0 else 1 end
    );
end
$$;
