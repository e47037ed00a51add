-- Updates the senders whose messages were classified one by one: when their epoch began, where
-- their indexes are, and, in an order that waits for earlier indexes, how far they have come.
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
        select j.sender_id, min(j.arrival_seq) as first_seq,
            max(j.index) filter (where j.release_seq is not null) as last_released,
            min(j.index) as first_index, max(j.index) as last_index,
            min(j.log_position) as first_position, max(j.log_position) as last_position,
            range_agg(int8range(j.index, j.index + 1)) filter (
                where j.release_seq is null and j.outcome is not null
            ) as set_aside_early
        from pg_temp.classified j where j.is_indexed group by j.sender_id
    ) c
    where s.sender_id = c.sender_id;
end
$$;
