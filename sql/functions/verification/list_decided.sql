-- The messages of a stream's logs that were decided on and are kept. Inlined.
create or replace function relaybox_internal.list_decided(stream_name text)
returns table (
    hop text, log_id integer, log_position bigint, message_id uuid, sender text, epoch integer,
    index bigint, clock jsonb
)
language sql stable
as $$
    select i.hop, l.log_id, l.log_position, l.message_id, l.sender, l.epoch, l.index, l.clock
    from relaybox_internal.stream s
    join relaybox_internal.stream_log o on o.stream_id = s.stream_id
    join relaybox_internal.hop_in i on i.log_id = o.log_id
    cross join lateral (
        -- OFFSET keeps this a scan of one log: a join would read every log of the store
        select m.log_id, m.log_position, m.message_id, m.sender, m.epoch, m.index, m.clock
        from relaybox_internal.log m
        where m.log_id = o.log_id and m.log_position <= o.decided_position
        offset 0
    ) l
    where s.stream = stream_name
$$;
