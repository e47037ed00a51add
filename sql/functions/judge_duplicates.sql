-- A duplicate with other content than its original is no duplicate: it is set aside. Originals of earlier batches are looked for
-- where the sender's index lay in the log; one that retention has dropped can't be compared any more.
create or replace function relaybox.judge_duplicates() returns void
language plpgsql volatile
set work_mem = '64MB'
set enable_seqscan = off
set enable_hashjoin = on
set enable_mergejoin = on
as $$
begin
    if exists (select from pg_temp.judged where verdict = 'duplicate' and original is null) then
        -- offset 0: a lookup by the whole key for each row; without statistics the planner would take the other side for small
        insert into pg_temp.repeated (sender_id, index)
        select distinct j.sender_id, j.index from pg_temp.judged j where j.verdict = 'duplicate' and j.original is null;
        insert into pg_temp.repeated (sender_id, index, original)
        select p.sender_id, l.index, min(l.position)
        from (
            select distinct j.hop_id, j.sender_id, r.first_position, r.last_position
            from pg_temp.judged j
            join (
                select sender_id, first_index, last_index, first_position, last_position from relaybox.index_range
                union all
                select sender_id, range_first_index, range_last_index, range_first_position, range_last_position
                from relaybox.sender_state where range_first_index is not null
            ) r on r.sender_id = j.sender_id and r.first_index <= j.index and r.last_index >= j.index
            where j.verdict = 'duplicate' and j.original is null
        ) p
        join relaybox.sender_state s on s.sender_id = p.sender_id
        join relaybox.log l on l.hop_id = p.hop_id and l.position >= p.first_position and l.position <= p.last_position
            and l.sender = s.sender and l.epoch = s.epoch
        cross join lateral (select from pg_temp.repeated d where d.sender_id = p.sender_id and d.index = l.index offset 0) d
        where not exists (select from relaybox.dead_letter x where x.hop_id = l.hop_id and x.position = l.position)
        group by p.sender_id, l.index
        on conflict (sender_id, index) do update set original = excluded.original;
        update pg_temp.judged j set original = o.original
        from pg_temp.repeated o
        where o.sender_id = j.sender_id and o.index = j.index and o.original <> j.position
            and j.verdict = 'duplicate' and j.original is null;
    end if;
    -- two lookups per duplicate
    with other as materialized (
        select d.taken
        from pg_temp.judged d
        cross join lateral (select m.* from relaybox.log m where m.hop_id = d.hop_id and m.position = d.position offset 0) l
        cross join lateral (select m.* from relaybox.log m where m.hop_id = d.hop_id and m.position = d.original offset 0) o
        where d.verdict = 'duplicate'
            and (l.topic, l.key, l.payload, l.payload_bytes) is distinct from (o.topic, o.key, o.payload, o.payload_bytes)
    )
    update pg_temp.judged j set verdict = 'other_content' where j.taken in (select o.taken from other o) and j.verdict = 'duplicate';
end
$$;
