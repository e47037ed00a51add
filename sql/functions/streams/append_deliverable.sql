-- Appends to a stream what list_released() returns, the messages that may be delivered now, and
-- returns how many they are. A row of relaybox_internal.delivery has at most a thousand stream
-- positions, or a run of log positions that follow each other.
create or replace function relaybox_internal.append_deliverable(
    stream_ relaybox_internal.stream, log_id_ integer, first_position bigint, last_position bigint
)
returns bigint
language plpgsql volatile
set work_mem = '256MB'
set jit = off
as $$
declare
    has_several_logs boolean := (
        select count(*) > 1
        from relaybox_internal.stream_log l where l.stream_id = stream_.stream_id
    );
    delivered_count bigint;
begin
    with released as (
        select r.log_id, r.log_position
        from relaybox_internal.list_released(
            log_id_, first_position, stream_.arrival_seq + 1
        ) r
        order by r.release_seq,
            case when stream_.delivery_order = 'causal' then 0 else r.epoch end,
            r.release_rank, r.arrival_seq
    ), islands as (
        -- a row of relaybox_internal.delivery names one log, and most streams have only one
        select log_id_ as log_id, 1::bigint as first_n, array_agg(r.log_position) as log_positions
        from released r where not has_several_logs
        union all
        select n.log_id, min(n.n), array_agg(n.log_position order by n.n)
        from (
            select m.*, m.n - row_number() over (partition by m.log_id order by m.n) as island
            from (
                select r.*, row_number() over () as n from released r where has_several_logs
            ) m
        ) n
        group by n.log_id, n.island
    ), blocks as materialized (
        -- else each block would be sorted with the whole array that it is cut from
        select i.log_id, i.first_n + p as first_n,
            i.log_positions[p + 1:least(p + 1000, cardinality(i.log_positions))] as log_positions
        from islands i
        cross join lateral generate_series(0, cardinality(i.log_positions) - 1, 1000) p
    ), shaped as (
        select b.*, b.first_n + cardinality(b.log_positions) - 1 as last_n,
            b.log_positions[1] as first_position,
            b.log_positions[cardinality(b.log_positions)] as last_position,
            case
                when b.log_positions[cardinality(b.log_positions)] - b.log_positions[1]
                    = cardinality(b.log_positions) - 1
                    then b.log_positions = array(
                        select p
                        from generate_series(
                            b.log_positions[1], b.log_positions[cardinality(b.log_positions)]
                        ) p
                    )
                else false
            end as is_run
        from blocks b
    ), joined as (
        select s.*,
            sum(case when s.is_run and s.joins then 0 else 1 end) over (order by s.first_n) as piece
        from (
            select s.*,
                lag(s.is_run) over before and lag(s.log_id) over before = s.log_id
                    and lag(s.last_position) over before + 1 = s.first_position as joins
            from shaped s
            window before as (order by s.first_n)
        ) s
    )
    insert into relaybox_internal.delivery (
        stream_id, first_stream_position, last_stream_position, log_id, first_position,
        log_positions
    )
    select stream_.stream_id, stream_.last_stream_position + min(j.first_n),
        stream_.last_stream_position + max(j.last_n), min(j.log_id), min(j.first_position),
        case when bool_and(j.is_run) then null else min(j.log_positions) end
    from joined j
    group by j.piece;
    select coalesce(max(d.last_stream_position) - stream_.last_stream_position, 0)
    into delivered_count
    from relaybox_internal.delivery d
    where d.stream_id = stream_.stream_id and d.last_stream_position > stream_.last_stream_position;
    return delivered_count;
end
$$;
