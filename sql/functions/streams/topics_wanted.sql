-- Returns the topics that consumers asked for in the stream of a hop's log, without those of the
-- file. None where the newest init has recorded that the stream takes none: the file of a driver may
-- be an older one.
create or replace function relaybox_internal.topics_wanted(hop_name text) returns text[]
language sql stable
as $$
    select coalesce(array_agg(t.topic order by t.topic), '{}')
    from relaybox_internal.hop_in i
    join relaybox_internal.stream_log l on l.log_id = i.log_id
    join relaybox_internal.stream s on s.stream_id = l.stream_id and s.topics_by_subscription
    join relaybox_internal.known_topics t on t.stream_id = l.stream_id
    where i.hop = hop_name and t.carried_by = 'subscription'
$$;
