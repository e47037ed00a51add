-- The senders of a range of a log: how many rows, and whether each one's indexes rise by one from row to row there (ascending).
-- One pass in the order of positions, a quarter of the range per worker: each sender's indexes are gathered as they come, and
-- compared with what they must be. A quarter is never shared out further: its rows would lose their order.
create or replace function relaybox.count_senders(log_id integer, first_position bigint, last_position bigint)
returns table (sender text, epoch integer, row_count bigint, first_index bigint, last_index bigint, ascending boolean)
language plpgsql stable
set enable_sort = off
set enable_seqscan = off
set enable_bitmapscan = off
set min_parallel_table_scan_size = '1TB'
set min_parallel_index_scan_size = '1TB'
set parallel_setup_cost = 0
set parallel_tuple_cost = 0
set work_mem = '64MB'
set jit = off
as $$
declare
    quarters integer := case when last_position - first_position < 20000 then 1 else 4 end;
    step bigint := (last_position - first_position) / quarters + 1;
    one_quarter constant text := '
        select %s as quarter, l.sender, l.epoch, array_agg(l.index) as indexes
        from (
            select m.sender, m.epoch, m.index from relaybox.log m
            where m.hop_id = $1 and m.position >= %s and m.position <= %s order by m.position
        ) l
        group by l.sender, l.epoch';
begin
    return query execute (
        select 'select s.sender, s.epoch, sum(s.row_count)::bigint,
                min(case when s.ascending then s.first_index else (select min(i) from unnest(s.indexes) i) end), max(s.last_index), bool_and(s.ascending and s.follows)
            from (
                select r.*, coalesce(r.first_index = lag(r.last_index) over (partition by r.sender, r.epoch order by r.quarter) + 1, true) as follows
                from (
                    select q.quarter, q.sender, q.epoch, cardinality(q.indexes)::bigint as row_count,
                        q.indexes, q.indexes[1] as first_index, q.indexes[cardinality(q.indexes)] as last_index,
                        q.indexes = array(
                            select least(q.indexes[1], 9223372036854775807 - cardinality(q.indexes)) + n
                            from generate_series(0, cardinality(q.indexes) - 1) n
                        ) as ascending
                    from (' || string_agg(
            format(one_quarter, q, first_position + q * step, least(first_position + (q + 1) * step - 1, last_position)), ' union all ' order by q
        ) || ') q
                ) r
            ) s
            group by s.sender, s.epoch'
        from generate_series(0, quarters - 1) q
    ) using log_id;
end
$$;
