-- How far each sender of a stream has come in its logs: the highest index, and the highest one that
-- neither waits nor was set aside. Indexes that were given up count in both. Reads each log once.
-- Inlined in check_decisions().
create or replace function relaybox_internal.list_reached_indexes(stream_name text)
returns table (sender text, epoch integer, last_index bigint, last_done_index bigint)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox_internal.stream s where s.stream = stream_name
    ), own_log as materialized (
        select l.* from own_stream s
        join relaybox_internal.stream_log l on l.stream_id = s.stream_id
    ), known_sender as materialized (
        select e.*
        from own_stream s join relaybox_internal.sender_state e on e.stream_id = s.stream_id
    ), undelivered as materialized (
        select h.log_id, h.log_position
        from own_stream s join relaybox_internal.held h on h.stream_id = s.stream_id
        union all
        select d.log_id, d.log_position
        from own_stream s
        join relaybox_internal.dead_letter d on d.stream_id = s.stream_id
            and d.subscription_id is null
    )
    select g.sender, g.epoch, max(g.index), max(g.index) filter (where g.is_done)
    from (
        select m.sender, m.epoch, m.index,
            u.log_position is null and (m.log_position > e.stalled_after) is not true as is_done
        from own_log o
        join relaybox_internal.log m on m.log_id = o.log_id and m.log_position <= o.decided_position
        join known_sender e on e.sender = m.sender and e.epoch = m.epoch and e.origin = o.origin
        left join undelivered u on u.log_id = m.log_id and u.log_position = m.log_position
        where m.epoch > 0 and exists (select from known_sender)
        union all
        select k.sender, k.epoch, k.last_index, true
        from own_stream s join relaybox_internal.skip k on k.stream_id = s.stream_id
    ) g
    group by g.sender, g.epoch
$$;
