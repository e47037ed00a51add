-- Fills pg_temp.arrived_sender with the indexes and positions of the senders of a batch. Rows are
-- read in the order of positions and gathered by a hash. A sort by sender would be slower, and would
-- lose their order.
create or replace function relaybox_internal.list_batch_indexes(
    log_id_ integer, first_position_ bigint, last_position_ bigint
)
returns void
language sql volatile
set enable_sort = off
set enable_hashagg = on
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexscan = on
set work_mem = '256MB'
set jit = off
as $$
    insert into pg_temp.arrived_sender (
        sender, epoch, first_index, last_index, indexes, log_positions
    )
    select l.sender, l.epoch, min(l.index), max(l.index), array_agg(l.index),
        array_agg(l.log_position)
    from (
        select m.sender, m.epoch, m.index, m.log_position from relaybox_internal.log m
        where m.log_id = log_id_ and m.log_position >= first_position_
            and m.log_position <= last_position_
        order by m.log_position
    ) l
    group by l.sender, l.epoch
$$;
