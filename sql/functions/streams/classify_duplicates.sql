-- Sets aside a duplicate whose content differs from its original. Originals of earlier batches are
-- searched where the sender's index is in the log. A duplicate whose original was dropped by
-- retention stays a duplicate.
create or replace function relaybox_internal.classify_duplicates(first_position bigint) returns void
language plpgsql volatile
set work_mem = '64MB'
set enable_seqscan = off
set enable_nestloop = off
set enable_mergejoin = off
set enable_hashjoin = on
as $$
begin
    if exists (
        select from pg_temp.classified where outcome = 'duplicate' and original_position is null
    ) then
        insert into pg_temp.repeated_index (log_id, sender_id, index)
        select distinct j.log_id, j.sender_id, j.index
        from pg_temp.classified j where j.outcome = 'duplicate' and j.original_position is null;
        -- most copies come soon after their original: only for the others the whole log is read
        perform relaybox_internal.find_originals(first_position - 20000);
        if exists (select from pg_temp.repeated_index where original_position is null) then
            perform relaybox_internal.find_originals(1);
        end if;
        update pg_temp.classified j set original_position = o.original_position
        from pg_temp.repeated_index o
        where o.sender_id = j.sender_id and o.index = j.index
            and o.original_position <> j.log_position
            and j.outcome = 'duplicate' and j.original_position is null;
    end if;
    -- two lookups per duplicate
    with other as materialized (
        select d.arrival_seq from pg_temp.classified d
        cross join lateral (
            select m.* from relaybox_internal.log m
            where m.log_id = d.log_id and m.log_position = d.log_position offset 0
        ) l
        cross join lateral (
            select m.* from relaybox_internal.log m
            where m.log_id = d.log_id and m.log_position = d.original_position offset 0
        ) o
        where d.outcome = 'duplicate'
            and (l.topic, l.key, l.payload, l.payload_bytes)
            is distinct from (o.topic, o.key, o.payload, o.payload_bytes)
    )
    update pg_temp.classified j set outcome = 'other_content'
    where j.arrival_seq in (select o.arrival_seq from other o) and j.outcome = 'duplicate';
end
$$;
