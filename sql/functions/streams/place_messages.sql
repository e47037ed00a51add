-- Appends to a stream what may be delivered now, list_released() says what. Places come a thousand to a row of relaybox.delivery, or as
-- runs where positions follow each other.
create or replace function relaybox.place_messages(here relaybox.stream, log_id integer, first_position bigint, last_position bigint)
returns bigint
language plpgsql volatile
set work_mem = '256MB'
set jit = off
as $$
declare
    has_several_logs boolean := (select count(*) > 1 from relaybox.stream_log l where l.stream_id = here.stream_id);
    has_in_order boolean := exists (select from pg_temp.decision_sender where is_in_order);
    placed_count bigint;
begin
    with numbered as (
        select r.hop_id, r.position,
            row_number() over (
                order by r.release_seq, case when here.delivery_order = 'causal' then 0 else r.epoch end, r.release_rank, r.arrival_seq
            ) as n
        from relaybox.list_released(log_id, first_position, last_position, here.taken + 1, has_in_order) r
    ), islands as (
        -- a row of relaybox.delivery names one log, and most streams have but one
        select n.*, 0 as island from numbered n where not has_several_logs
        union all
        select n.*, n.n - row_number() over (partition by n.hop_id order by n.n) from numbered n where has_several_logs
    ), blocks as (
        select i.hop_id, i.island, (i.n - 1) / 1000 as block, min(i.n) as first_n, max(i.n) as last_n, array_agg(i.position order by i.n) as positions
        from islands i
        group by i.hop_id, i.island, (i.n - 1) / 1000
    ), shaped as (
        select b.*, b.positions[1] as first_position, b.positions[cardinality(b.positions)] as last_position,
            b.positions = array(
                select p from generate_series(b.positions[1], b.positions[1] + cardinality(b.positions) - 1) p
            ) as is_run
        from blocks b
    ), joined as (
        select s.*,
            sum(case when s.is_run and s.joins then 0 else 1 end) over (order by s.first_n) as piece
        from (
            select s.*,
                lag(s.is_run) over before and lag(s.hop_id) over before = s.hop_id and lag(s.last_position) over before + 1 = s.first_position as joins
            from shaped s
            window before as (order by s.first_n)
        ) s
    )
    insert into relaybox.delivery (stream_id, first_place, last_place, hop_id, first_position, positions)
    select here.stream_id, here.last_place + min(j.first_n), here.last_place + max(j.last_n), min(j.hop_id), min(j.first_position),
        case when bool_and(j.is_run) then null else min(j.positions) end
    from joined j
    group by j.piece;
    select coalesce(max(d.last_place), here.last_place) - here.last_place into placed_count
    from relaybox.delivery d where d.stream_id = here.stream_id and d.last_place > here.last_place;
    return placed_count;
end
$$;
