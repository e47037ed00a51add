-- The channel on which a stream's consumers hear that there is something to fetch. The stream's
-- number, not its name: a role can listen on any channel, also of a stream that it may not know.
create or replace function relaybox_internal.channel_of(stream_id_ integer) returns text
language sql immutable
as $$
    select 'relaybox_stream_' || stream_id_
$$;
