-- Counts the senders of a range of a log, a quarter of it per worker: the rows of each, whether its
-- indexes rise by one from row to row, and whether one of its messages may expire, or be delayed. Reads
-- in the order of positions: the indexes of each sender are gathered as they come, and compared with what they must be. A worker's quarter is
-- never divided and nothing is sorted, since rows would lose their order. It is a statement of its
-- own, whose result needs no order: a planner might otherwise sort by sender first, and sorts are
-- not stable.
create or replace function relaybox_internal.count_quarters(
    log_id_ integer, first_position bigint, last_position bigint
)
returns table (
    quarter integer, sender text, epoch integer, row_count bigint, first_index bigint,
    last_index bigint, ascending boolean, first_sent_at timestamptz, has_expiry boolean,
    has_delay boolean
)
language plpgsql stable
set enable_sort = off
set enable_hashagg = on
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexscan = on
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
        select %s as quarter, l.sender, l.epoch, array_agg(l.index) as indexes,
            min(l.sent_at) as first_sent_at,
            coalesce(bool_or(l.headers ? ''relaybox-expires-at''), false) as has_expiry,
            coalesce(bool_or(l.headers ? ''relaybox-deliver-after''), false) as has_delay
        from (
            select m.sender, m.epoch, m.index, m.sent_at, m.headers from relaybox_internal.log m
            where m.log_id = $1 and m.log_position >= %s and m.log_position <= %s
            order by m.log_position
        ) l
        group by l.sender, l.epoch';
begin
    return query execute (
        select 'select a.quarter, a.sender, a.epoch, a.row_count,
                case
                    when a.ascending then a.indexes[1]
                    else (select min(i) from unnest(a.indexes) i)
                end,
                a.indexes[a.row_count], a.ascending, a.first_sent_at, a.has_expiry, a.has_delay
            from (
                select q.quarter, q.sender, q.epoch, q.indexes, q.first_sent_at, q.has_expiry, q.has_delay,
                    cardinality(q.indexes)::bigint as row_count,
                    q.indexes = array(
                        select least(q.indexes[1], 9223372036854775807 - cardinality(q.indexes)) + n
                        from generate_series(0, cardinality(q.indexes) - 1) n
                    ) as ascending
                from (' || string_agg(
            format(
                one_quarter, q, first_position + q * step,
                least(first_position + (q + 1) * step - 1, last_position)
            ),
            ' union all ' order by q
        ) || ') q
                offset 0
            ) a'
        from generate_series(0, quarters - 1) q
    ) using log_id_;
end
$$;
