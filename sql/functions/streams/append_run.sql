-- Appends a run of positions of one log to a stream. A run that continues the stream's last one
-- makes that one longer.
create or replace function relaybox_internal.append_run(
    stream_ relaybox_internal.stream, log_id_ integer, first_position_ bigint, last_position_ bigint
)
returns void
language plpgsql volatile
as $$
begin
    update relaybox_internal.delivery d
    set last_stream_position = d.last_stream_position + last_position_ - first_position_ + 1,
        delivered_at = clock_timestamp()
    where d.stream_id = stream_.stream_id and d.last_stream_position = stream_.last_stream_position
        and d.log_id = log_id_ and d.log_positions is null
        and first_position_
        = d.first_position + d.last_stream_position - d.first_stream_position + 1;
    if not found then
        insert into relaybox_internal.delivery (
            stream_id, first_stream_position, last_stream_position, log_id, first_position
        )
        values (
            stream_.stream_id, stream_.last_stream_position + 1,
            stream_.last_stream_position + last_position_ - first_position_ + 1, log_id_,
            first_position_
        );
    end if;
end
$$;
