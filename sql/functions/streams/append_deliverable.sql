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
    has_in_order boolean := exists (select from pg_temp.decision_sender where is_in_order);
    delivered_count bigint;
begin
    with numbered as (
        select r.log_id, r.log_position,
            row_number() over (
                order by r.release_seq,
                    case when stream_.delivery_order = 'causal' then 0 else r.epoch end,
                    r.release_rank, r.arrival_seq
            ) as n
        from relaybox_internal.list_released(
            log_id_, first_position, last_position, stream_.arrival_seq + 1, has_in_order
        ) r
    ), islands as (
        -- a row of relaybox_internal.delivery names one log, and most streams have only one
        select n.*, 0 as island from numbered n where not has_several_logs
        union all
        select n.*, n.n - row_number() over (partition by n.log_id order by n.n)
        from numbered n where has_several_logs
    ), blocks as (
        select i.log_id, i.island, (i.n - 1) / 1000 as block, min(i.n) as first_n,
            max(i.n) as last_n, array_agg(i.log_position order by i.n) as log_positions
        from islands i
        group by i.log_id, i.island, (i.n - 1) / 1000
    ), shaped as (
        select b.*, b.log_positions[1] as first_position,
            b.log_positions[cardinality(b.log_positions)] as last_position,
            b.log_positions = array(
                select p
                from generate_series(
                    b.log_positions[1], b.log_positions[1] + cardinality(b.log_positions) - 1
                ) p
            ) as is_run
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
