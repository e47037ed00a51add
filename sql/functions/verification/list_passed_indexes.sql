-- Indexes of a stream's senders that no delivery waits for: an operator gave them up, or their
-- messages were set aside before their turn. Inlined.
create or replace function relaybox_internal.list_passed_indexes(stream_name text)
returns table (sender text, epoch integer, indexes int8multirange)
language sql stable
as $$
    select g.sender, g.epoch, range_agg(g.indexes)
    from (
        select k.sender, k.epoch, int8range(k.first_index, k.last_index, '[]') as indexes
        from relaybox_internal.stream s join relaybox_internal.skip k on k.stream_id = s.stream_id
        where s.stream = stream_name
        union all
        select l.sender, l.epoch, int8range(l.index, l.index + 1)
        from relaybox_internal.stream s
        join relaybox_internal.stream_log o on o.stream_id = s.stream_id
        join relaybox_internal.dead_letter d on d.log_id = o.log_id and d.subscription_id is null
            and (starts_with(d.reason, 'clock_') or d.reason = 'does_not_conform')
        -- a lookup each, since few are set aside: a join would read the whole log
        cross join lateral (
            select m.sender, m.epoch, m.index from relaybox_internal.log m
            where m.log_id = d.log_id and m.log_position = d.log_position
                and m.log_position <= o.decided_position
            limit 1
        ) l
        where s.stream = stream_name
    ) g
    group by g.sender, g.epoch
$$;
