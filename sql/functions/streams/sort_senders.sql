-- Decides on the senders of list_sortable_senders(), in an order that waits for earlier indexes.
-- Each sender's indexes are sorted. A message whose index came before is a duplicate. A message is
-- released when the last of the earlier indexes has arrived, and held if one is missing. Most
-- messages stay in arrays: only duplicates and held messages become rows of pg_temp.classified.
-- classify_rows() decides the same of other senders, and at several times the cost.
create or replace function relaybox_internal.sort_senders(
    stream_ relaybox_internal.stream, input_log relaybox_internal.stream_log, first_position_ bigint
)
returns void
language plpgsql volatile
set work_mem = '256MB'
set jit = off
as $$
declare
    -- the arrival number of a position of this batch is position + seq_shift
    seq_shift bigint := stream_.arrival_seq - first_position_ + 1;
begin
    with sortable as materialized (
        select * from relaybox_internal.list_sortable_senders(input_log.log_id, first_position_)
    ), decided as materialized (
        select s.*, d.*
        from sortable s
        cross join lateral (
            select
                min(f.arrival_seq) filter (where f.is_first) as first_seq,
                array_agg(f.log_position)
                filter (where f.is_first and f.has_all_earlier) as released_positions,
                array_agg(f.last_earlier_seq)
                filter (where f.is_first and f.has_all_earlier) as release_seqs,
                array_agg(f.log_position)
                filter (where f.is_first and not f.has_all_earlier and f.is_new) as held_positions,
                array_agg(f.index)
                filter (where f.is_first and not f.has_all_earlier and f.is_new) as held_indexes,
                array_agg(f.log_position) filter (where not f.is_first) as repeated_positions,
                array_agg(f.index) filter (where not f.is_first) as repeated_indexes,
                array_agg(f.first_position_of_index)
                filter (where not f.is_first) as original_positions
            from (
                select r.*,
                    max(case when r.is_first then r.arrival_seq end)
                    over earlier as last_earlier_seq,
                    count(*) filter (where r.is_first) over earlier
                    = r.index - s.watermark as has_all_earlier
                from (
                    select m.*, m.log_position = m.first_position_of_index as is_first
                    from (
                        select a.*,
                            first_value(a.log_position) over (
                                partition by a.index order by a.arrival_seq
                            ) as first_position_of_index
                        from (
                            select n.index, seq_shift + n.log_position as arrival_seq,
                                n.log_position, true as is_new
                            from unnest(s.indexes, s.log_positions) n (index, log_position)
                            where n.index > s.watermark
                            union all
                            select h.index, h.arrival_seq, h.log_position, false
                            from relaybox_internal.held h where h.sender_id = s.sender_id
                        ) a
                    ) m
                ) r
                window earlier as (
                    order by r.index, r.arrival_seq rows unbounded preceding
                )
            ) f
        ) d
    ), sorted as (
        insert into pg_temp.sorted_sender
        select d.sender_id, d.epoch, d.first_seq, greatest(d.first_index, d.watermark + 1),
            d.last_index, d.log_positions[1], d.log_positions[cardinality(d.log_positions)],
            d.watermark + cardinality(d.released_positions), d.released_positions, d.release_seqs
        from decided d
    )
    insert into pg_temp.classified (
        arrival_seq, log_id, log_position, sender_id, epoch, index, is_new, outcome,
        original_position, is_indexed, release_rank
    )
    select seq_shift + e.log_position, input_log.log_id, e.log_position, e.sender_id, e.epoch,
        e.index, true, e.outcome, e.original_position, e.outcome is null, e.index
    from (
        select d.sender_id, d.epoch, r.log_position, r.index, r.original_position,
            'duplicate' as outcome
        from decided d
        cross join lateral unnest(
            d.repeated_positions, d.repeated_indexes, d.original_positions
        ) r (log_position, index, original_position)
        union all
        -- an index that an earlier batch brought: its original has to be looked for
        select s.sender_id, s.epoch, n.log_position, n.index, null, 'duplicate'
        from sortable s
        cross join lateral unnest(s.indexes, s.log_positions) n (index, log_position)
        where s.first_index <= s.watermark and n.index <= s.watermark
        union all
        select d.sender_id, d.epoch, h.log_position, h.index, null, null
        from decided d
        cross join lateral unnest(d.held_positions, d.held_indexes) h (log_position, index)
    ) e;
end
$$;
