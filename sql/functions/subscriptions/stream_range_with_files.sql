-- Pins a range of a stream that may begin in detached messages: what is read of it later is the
-- same, whatever arrives, is detached or attached meanwhile.
create or replace function relaybox.stream_range_with_files(
    stream_name text, start text default 'earliest', through text default null
)
returns table (
    store_id uuid, first_stream_position bigint, last_stream_position bigint,
    newest_stream_position bigint
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    stream relaybox_internal.stream := relaybox_internal.find_stream(stream_name, 0);
begin
    if (select s.bind_topics from relaybox_internal.store s) then
        perform relaybox_internal.refuse_borrowed_session();
        perform relaybox_internal.require_topics(stream.stream_id, null);
    end if;
    return query
    select s.store_id, b.first_stream_position, b.last_stream_position, stream.last_stream_position
    from relaybox_internal.store s
    cross join relaybox_internal.positions_in_stream(
        relaybox_internal.kept_or_detached(stream), start, through
    ) b;
end
$$;

comment on function relaybox.stream_range_with_files(text, text, text) is
'For the Spark format relaybox: as stream_range(), and detached messages count as kept.
read_stream() reads those that are here, read_detached() says in which files the others are. Changes
nothing.
`stream_name`: the stream, as relaybox.subscriptions has it.
`start`: earliest (default), latest, a stream position, or a time of delivery here.
`through`: the end, in the same forms; null: the newest message. A stream position is part of the
    range, a time is not.
Returns `store_id`, `first_stream_position`, `last_stream_position` (below the first one: the range
    is empty), and `newest_stream_position` of the stream.
Errors: RB032 (no such stream), RB034 (no longer kept), RB036 (no such start or end), RB041 (the
    stream has a topic that the role may not read).';
