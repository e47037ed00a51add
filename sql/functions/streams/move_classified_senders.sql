-- Updates the senders that were sorted or classified: when their epoch began, where their indexes
-- are, and, in an order that waits for earlier indexes, how far they have come.
create or replace function relaybox_internal.move_classified_senders(waits_for_earlier boolean)
returns void
language plpgsql volatile
as $$
begin
    update relaybox_internal.sender_state s set
        begun_at = coalesce(s.begun_at, c.first_seq), moved_at = clock_timestamp(),
        watermark = case
            when waits_for_earlier then greatest(s.watermark, c.last_released)
            else s.watermark
        end,
        range_first_index = least(s.range_first_index, c.first_index),
        range_last_index = greatest(s.range_last_index, c.last_index),
        range_first_position = least(s.range_first_position, c.first_position),
        range_last_position = greatest(s.range_last_position, c.last_position),
        -- set aside before its turn: its turn must not be waited for
        skipped = s.skipped + coalesce(c.set_aside_early, '{}')
    from (
        select m.sender_id, min(m.first_seq) as first_seq, max(m.last_released) as last_released,
            min(m.first_index) as first_index, max(m.last_index) as last_index,
            min(m.first_position) as first_position, max(m.last_position) as last_position,
            range_agg(m.set_aside_early) as set_aside_early
        from (
            select j.sender_id, j.arrival_seq as first_seq,
                case when j.release_seq is not null then j.index end as last_released,
                j.index as first_index, j.index as last_index, j.log_position as first_position,
                j.log_position as last_position,
                case
                    when j.release_seq is null and j.outcome is not null
                        then int8range(j.index, j.index + 1)
                end as set_aside_early
            from pg_temp.classified j where j.is_indexed
            union all
            select o.sender_id, o.first_seq, o.last_released, o.first_index, o.last_index,
                o.first_position, o.last_position, null
            from pg_temp.sorted_sender o where o.first_seq is not null
        ) m
        group by m.sender_id
    ) c
    where s.sender_id = c.sender_id;
end
$$;
