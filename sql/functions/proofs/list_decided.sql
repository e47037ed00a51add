-- The messages of a stream's logs that were decided on and are kept. Inlined.
create or replace function relaybox.list_decided(stream_name text)
returns table (
    hop text, hop_id integer, "position" bigint, message_id uuid, sender text, epoch integer, index bigint, clock jsonb
)
language sql stable
as $$
    select i.hop, l.hop_id, l.position, l.message_id, l.sender, l.epoch, l.index, l.clock
    from relaybox.stream s
    join relaybox.stream_log o on o.stream_id = s.stream_id
    join relaybox.hop_in i on i.hop_id = o.hop_id
    join relaybox.log l on l.hop_id = o.hop_id and l.position <= o.decided_position
    where s.stream = stream_name
        -- so that the segments of other logs are not opened
        and l.hop_id = any(array(select p.hop_id from relaybox.stream t join relaybox.stream_log p using (stream_id) where t.stream = stream_name))
$$;
