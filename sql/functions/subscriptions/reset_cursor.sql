-- A locked lane's cursor put at a stream position on request: done through it, nothing fetched,
-- redriven, suspected or leased. Writes nothing.
create or replace function relaybox_internal.reset_cursor(
    cursor_ relaybox_internal.cursor, stream_position_ bigint
)
returns relaybox_internal.cursor
language plpgsql stable
as $$
begin
    cursor_.done_stream_position := stream_position_;
    cursor_.fetched_stream_position := stream_position_;
    cursor_.redrive_stream_position := null;
    cursor_.fetch_count := 0;
    cursor_.suspect_stream_position := 0;
    cursor_.suspect_rows := null;
    cursor_.worker := null;
    cursor_.leased_until := null;
    cursor_.token := null;
    cursor_.fetched_in := null;
    cursor_.due_at := null;
    return cursor_;
end
$$;
