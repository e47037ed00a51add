-- Reads the log from a position on, where the senders' indexes are, to find the first message of
-- each repeated index. Each message is read once, and only where an original can be. Temporary
-- tables have no statistics, so that a free planner would compare every message with all repeated
-- indexes. With these settings it can only join by hashes of the whole key.
create or replace function relaybox_internal.find_originals(from_position bigint) returns void
language sql volatile
set work_mem = '64MB'
set enable_seqscan = off
set enable_nestloop = off
set enable_mergejoin = off
set enable_hashjoin = on
as $$
    with sought as (
        select distinct r.log_id, r.sender_id
        from pg_temp.repeated_index r where r.original_position is null
    ), sender_range as materialized (
        -- where in the log the indexes of a sender are, if one of them is sought
        select
            w.log_id, s.sender_id, s.sender, s.epoch,
            greatest(min(r.first_position), from_position) as first_position,
            max(r.last_position) as last_position
        from sought w
        join relaybox_internal.sender_state s on s.sender_id = w.sender_id
        cross join lateral (
            select i.first_index, i.last_index, i.first_position, i.last_position
            from relaybox_internal.index_range i where i.sender_id = w.sender_id
            union all
            select s.range_first_index, s.range_last_index, s.range_first_position,
                s.range_last_position
            where s.range_first_index is not null
            offset 0
        ) r
        where r.last_position >= from_position and (
            select d.index from pg_temp.repeated_index d
            where d.sender_id = w.sender_id and d.index >= r.first_index and d.index <= r.last_index
                and d.original_position is null
            order by d.index limit 1
        ) is not null
        group by w.log_id, s.sender_id
    ), log_range as materialized (
        -- the same for all senders, so that no message is read twice
        select g.log_id,
            unnest(range_agg(int8range(g.first_position, g.last_position, '[]'))) as log_positions
        from sender_range g group by g.log_id
    )
    insert into pg_temp.repeated_index (log_id, sender_id, index, original_position)
    select d.log_id, d.sender_id, d.index, min(l.log_position)
    from log_range searched
    cross join lateral (
        select m.log_id, m.log_position, m.sender, m.epoch, m.index from relaybox_internal.log m
        where m.log_id = searched.log_id and m.log_position >= lower(searched.log_positions)
            and m.log_position < upper(searched.log_positions)
        offset 0
    ) l
    join sender_range g on g.log_id = l.log_id and g.sender = l.sender and g.epoch = l.epoch
        and g.first_position <= l.log_position and g.last_position >= l.log_position
    join pg_temp.repeated_index d on d.log_id = g.log_id and d.sender_id = g.sender_id
        and d.index = l.index and d.original_position is null
    where not exists (
        -- a message that a stream refused is no original, unless its index is resolved
        select from relaybox_internal.dead_letter x
        where x.log_id = d.log_id and x.log_position = l.log_position and x.subscription_id is null
            and not starts_with(x.reason, 'clock_')
        offset 0
    )
    group by d.log_id, d.sender_id, d.index
    on conflict (sender_id, index) do update set original_position = excluded.original_position
$$;
