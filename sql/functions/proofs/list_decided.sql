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
    cross join lateral (
        -- a scan of this log alone, which OFFSET keeps apart: a join would read every log of the store
        select m.hop_id, m.position, m.message_id, m.sender, m.epoch, m.index, m.clock
        from relaybox.log m
        where m.hop_id = o.hop_id and m.position <= o.decided_position
        offset 0
    ) l
    where s.stream = stream_name
$$;
