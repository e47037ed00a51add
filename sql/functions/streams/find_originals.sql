-- Looks through the log from a position on, where the senders' indexes lay, for the first copy of each repeated index: each row
-- once, and only where one can be. Without statistics of temporary tables the planner would look at all that is repeated for each
-- row; as it is set here, it can only join by hashes of the whole key.
create or replace function relaybox.find_originals(from_position bigint) returns void
language sql volatile
set work_mem = '64MB'
set enable_seqscan = off
set enable_nestloop = off
set enable_mergejoin = off
set enable_hashjoin = on
as $$
    with lay as materialized (
        select w.hop_id, s.sender_id, s.sender, s.epoch, greatest(min(r.first_position), from_position) as first_position, max(r.last_position) as last_position
        from (select distinct d.hop_id, d.sender_id from pg_temp.repeated d where d.original is null) w
        join relaybox.sender_state s on s.sender_id = w.sender_id
        cross join lateral (
            select i.first_index, i.last_index, i.first_position, i.last_position from relaybox.index_range i where i.sender_id = w.sender_id
            union all
            select s.range_first_index, s.range_last_index, s.range_first_position, s.range_last_position where s.range_first_index is not null
            offset 0
        ) r
        where r.last_position >= from_position and (
            select d.index from pg_temp.repeated d
            where d.sender_id = w.sender_id and d.index >= r.first_index and d.index <= r.last_index and d.original is null
            order by d.index limit 1
        ) is not null
        group by w.hop_id, s.sender_id
    ), stretch as materialized (
        select p.hop_id, unnest(range_agg(int8range(p.first_position, p.last_position, '[]'))) as positions from lay p group by p.hop_id
    )
    insert into pg_temp.repeated (hop_id, sender_id, index, original)
    select d.hop_id, d.sender_id, d.index, min(l.position)
    from stretch t
    cross join lateral (
        select m.hop_id, m.position, m.sender, m.epoch, m.index from relaybox.log m
        where m.hop_id = t.hop_id and m.position >= lower(t.positions) and m.position < upper(t.positions)
        offset 0
    ) l
    join lay p on p.hop_id = l.hop_id and p.sender = l.sender and p.epoch = l.epoch
        and p.first_position <= l.position and p.last_position >= l.position
    join pg_temp.repeated d on d.hop_id = p.hop_id and d.sender_id = p.sender_id and d.index = l.index and d.original is null
    where not exists (
        -- what a stream refused is no original, unless its index is done with
        select from relaybox.dead_letter x
        where x.hop_id = d.hop_id and x.position = l.position and x.subscription_id is null
            and not starts_with(x.reason, 'clock_')
        offset 0
    )
    group by d.hop_id, d.sender_id, d.index
    on conflict (sender_id, index) do update set original = excluded.original
$$;
