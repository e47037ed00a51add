-- The senders of a range of a log, and whether each one's indexes rise by one from row to row there (ascending).
-- One pass in the order of positions: each sender's indexes are gathered as they come, and compared with what they must be.
create or replace function relaybox.count_senders(log_id integer, first_position bigint, last_position bigint)
returns table (sender text, epoch integer, first_index bigint, last_index bigint, ascending boolean)
language sql stable
set enable_sort = off
set enable_seqscan = off
set max_parallel_workers_per_gather = 0
set work_mem = '64MB'
set jit = off
as $$
    select
        l.sender, l.epoch, min(l.index), max(l.index),
        case
            when max(l.index) - min(l.index) + 1 = count(*)
                then array_agg(l.index) = array(select i from generate_series(min(l.index), max(l.index)) i)
            else false
        end
    from (
        select m.sender, m.epoch, m.index from relaybox.log m
        where m.hop_id = log_id and m.position >= first_position and m.position <= last_position
        order by m.position
    ) l
    group by l.sender, l.epoch
$$;
