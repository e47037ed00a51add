-- A row of relaybox_internal.stream whose kept messages begin with the first one that is here or in
-- files, from which Spark reads it.
create or replace function relaybox_internal.kept_or_detached(
    stream relaybox_internal.stream
)
returns relaybox_internal.stream
language plpgsql stable
as $$
begin
    if exists (
        select from relaybox_internal.detached_segment d
        join relaybox_internal.stream_log l on l.log_id = d.log_id
        where l.stream_id = stream.stream_id and d.state = 'detached'
    ) then
        stream.first_kept_stream_position := least(
            stream.first_kept_stream_position, stream.dropped_stream_position + 1
        );
    end if;
    return stream;
end
$$;
