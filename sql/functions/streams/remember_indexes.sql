-- For orders that do not wait for earlier indexes: keeps the exact set of accepted indexes. The
-- watermark moves over the indexes that follow it without a gap.
create or replace function relaybox_internal.remember_indexes() returns void
language plpgsql volatile
set work_mem = '128MB'
as $$
declare
    one record;
begin
    -- usually disorder ends with its batch: no gap is left, and only the watermark is kept
    with whole as (
        update relaybox_internal.sender_state s set watermark = j.last_index
        from (
            select j.sender_id, min(j.index) as first_index, max(j.index) as last_index,
                count(*) as row_count
            from pg_temp.classified j where j.is_indexed group by j.sender_id
        ) j
        where s.sender_id = j.sender_id and s.seen_beyond = 0 and j.first_index = s.watermark + 1
            and j.last_index - j.first_index + 1 = j.row_count
        returning s.sender_id
    )
    insert into pg_temp.sender_without_gap select w.sender_id from whole w;
    insert into relaybox_internal.seen as n (sender_id, chunk, indexes, fragments)
    select g.sender_id, g.chunk, g.indexes, (select count(*) from unnest(g.indexes))
    from (
        select j.sender_id, j.index >> 12 as chunk,
            range_agg(int8range(j.index, j.index + 1)) as indexes
        from pg_temp.classified j
        where j.is_indexed
            and not exists (
                select from pg_temp.sender_without_gap r where r.sender_id = j.sender_id
            )
        group by j.sender_id, j.index >> 12
    ) g
    on conflict (sender_id, chunk) do update set
        indexes = n.indexes + excluded.indexes,
        fragments = (select count(*) from unnest(n.indexes + excluded.indexes));
    for one in
        select s.sender_id, s.watermark from relaybox_internal.sender_state s
        where s.sender_id in (
            select j.sender_id from pg_temp.classified j where j.is_indexed
            except select r.sender_id from pg_temp.sender_without_gap r
        )
    loop
        perform relaybox_internal.pass_seen_indexes(one.sender_id, one.watermark);
    end loop;
end
$$;
