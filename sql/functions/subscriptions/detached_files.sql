-- What the files of a detached segment of a stream have to be. No row: nothing is detached there
-- any more.
create or replace function relaybox.detached_files(stream_name text, directory text)
returns table (
    first_position bigint, last_position bigint, row_count bigint, files jsonb
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
    stream relaybox_internal.stream := relaybox_internal.find_stream(stream_name, 0);
begin
    if (select s.bind_topics from relaybox_internal.store s) then
        perform relaybox_internal.refuse_borrowed_session();
        perform relaybox_internal.require_topics(stream.stream_id, null);
    end if;
    return query
    select d.first, d.last, d.row_count, d.files
    from relaybox_internal.detached_segment d
    join relaybox_internal.stream_log l on l.log_id = d.log_id
    where l.stream_id = stream.stream_id and d.state = 'detached'
        and d.directory = detached_files.directory;
end
$$;

comment on function relaybox.detached_files(text, text) is
'For the Spark format relaybox: what the files of a detached segment have to be. Changes nothing.
`stream_name`: the stream, as relaybox.subscriptions has it.
`directory`: of the files, as read_detached() has it.
Returns `first_position`, `last_position` and `row_count` of the segment, and `files`: name, bytes,
    rows, first and last log position of each file; null: an earlier version detached it.
Errors: RB032 (no such stream), RB041 (the stream has a topic that the role may not read).';
