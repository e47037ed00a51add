-- Finds what the clocks of pg_temp.causal_message name and is not delivered yet. Each named sender
-- is looked up once. Of an epoch that ended without a message, only the end is known.
create or replace function relaybox_internal.find_causes(stream_ relaybox_internal.stream)
returns void
language sql volatile
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    insert into pg_temp.named_sender (sender, epoch, sender_id, watermark, skipped, ended_at_seq)
    select n.sender, n.epoch, s.sender_id, s.watermark, s.skipped,
        coalesce(f.ended_at_seq, case when s.sender_id is null then (
            select min(b.arrival_seq)
            from pg_temp.causal_message b
            join relaybox_internal.sender_state o
                on o.sender_id = b.sender_id and o.begun_at is null
            where b.sender = n.sender and b.epoch > n.epoch
        ) end)
    from (
        select distinct e.sender, e.epoch
        from pg_temp.causal_message c
        cross join lateral (
            select m.clock from relaybox_internal.log m
            where m.log_id = c.log_id and m.log_position = c.log_position offset 0
        ) l
        cross join relaybox_internal.clock_entries(l.clock) e
        where c.outcome is null and e.sender <> c.sender
    ) n
    left join lateral (
        select o.sender_id, o.watermark, o.skipped from relaybox_internal.sender_state o
        where o.stream_id = stream_.stream_id and o.sender = n.sender and o.epoch = n.epoch
        offset 0
    ) s on true
    left join pg_temp.epoch_end f on f.sender_id = s.sender_id
    where not exists (
        select from relaybox_internal.sender_state o
        where o.stream_id = stream_.stream_id and o.sender = n.sender and o.epoch > n.epoch
            and o.begun_at is not null
        offset 0
    );
    insert into pg_temp.unmet_cause (
        arrival_seq, cause_sender_id, cause_index, ended_at_seq, cause_seq
    )
    select a.arrival_seq, a.sender_id, a.index, a.ended_at_seq, d.arrival_seq
    from (
        select c.arrival_seq, n.sender_id, n.ended_at_seq, n.watermark,
            case
                when n.skipped @> e.index
                    then relaybox_internal.index_to_resolve(n.skipped, e.index)
                else e.index
            end as index
        from pg_temp.causal_message c
        cross join lateral (
            select m.clock from relaybox_internal.log m
            where m.log_id = c.log_id and m.log_position = c.log_position offset 0
        ) l
        cross join relaybox_internal.clock_entries(l.clock) e
        join pg_temp.named_sender n on n.sender = e.sender and n.epoch = e.epoch
        where c.outcome is null and e.sender <> c.sender
        offset 0
    ) a
    left join pg_temp.causal_message d on d.sender_id = a.sender_id and d.index = a.index
    where (a.watermark >= a.index) is not true
$$;
