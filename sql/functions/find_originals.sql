-- Looks through the log from a position on, where the senders' indexes lay, for the first copy of each repeated index.
create or replace function relaybox.find_originals(from_position bigint) returns void
language sql volatile
set work_mem = '64MB'
set enable_seqscan = off
set enable_hashjoin = on
set enable_mergejoin = on
as $$
    -- offset 0: a lookup by the whole key for each row; without statistics the planner would take the other side for small
    insert into pg_temp.repeated (sender_id, index, original)
    select p.sender_id, l.index, min(l.position)
    from (
        select distinct j.hop_id, j.sender_id, greatest(r.first_position, from_position) as first_position, r.last_position
        from pg_temp.judged j
        join pg_temp.repeated d on d.sender_id = j.sender_id and d.index = j.index and d.original is null
        join (
            select sender_id, first_index, last_index, first_position, last_position from relaybox.index_range
            union all
            select sender_id, range_first_index, range_last_index, range_first_position, range_last_position
            from relaybox.sender_state where range_first_index is not null
        ) r on r.sender_id = j.sender_id and r.first_index <= j.index and r.last_index >= j.index and r.last_position >= from_position
        where j.verdict = 'duplicate' and j.original is null
    ) p
    join relaybox.sender_state s on s.sender_id = p.sender_id
    join relaybox.log l on l.hop_id = p.hop_id and l.position >= p.first_position and l.position <= p.last_position
        and l.sender = s.sender and l.epoch = s.epoch
    cross join lateral (
        select from pg_temp.repeated d where d.sender_id = p.sender_id and d.index = l.index and d.original is null offset 0
    ) d
    where not exists (
        -- what a stream refused is no original, unless its index is done with
        select from relaybox.dead_letter x
        where x.hop_id = l.hop_id and x.position = l.position and x.subscription_id is null
            and x.reason not in ('clock_invalid', 'clock_too_far', 'clock_names_unknown_sender')
    )
    group by p.sender_id, l.index
    on conflict (sender_id, index) do update set original = excluded.original
$$;
