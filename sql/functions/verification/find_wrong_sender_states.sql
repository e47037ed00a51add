-- Senders of a stream that are done through an index that never came, or not done through one that
-- was decided on, does not wait and was not set aside. Inlined in check_decisions().
create or replace function relaybox_internal.find_wrong_sender_states(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox_internal.stream s where s.stream = stream_name
    ), own_log as materialized (
        select l.*, i.first_kept_position
        from own_stream s
        join relaybox_internal.stream_log l on l.stream_id = s.stream_id
        join relaybox_internal.hop_in i on i.log_id = l.log_id
    ), known_sender as materialized (
        select e.*
        from own_stream s join relaybox_internal.sender_state e on e.stream_id = s.stream_id
    ), reached as materialized (
        select * from relaybox_internal.list_reached_indexes(stream_name)
    )
    select 'sender_contradicts', e.watermark,
        format(
            'sender %s, epoch %s is done through index %s; index %s is the highest that has come',
            e.sender, e.epoch, e.watermark, coalesce(i.last_index, 0)
        )
    from known_sender e
    left join reached i on i.sender = e.sender and i.epoch = e.epoch
    where e.watermark > coalesce(i.last_index, 0)
        -- what retention has dropped has no index any more
        and (select max(o.first_kept_position) from own_log o) = 1
    union all
    select 'sender_contradicts', e.watermark,
        format(
            'sender %s, epoch %s is done through index %s; '
            'index %s was decided on, and neither waits nor was set aside',
            e.sender, e.epoch, e.watermark, i.last_done_index
        )
    from own_stream s
    join known_sender e on s.delivery_order in ('fifo', 'causal') and e.begun_at is not null
    join reached i on i.sender = e.sender and i.epoch = e.epoch
    where i.last_done_index > e.watermark and e.epoch = (
        select max(newer.epoch) from known_sender newer
        where newer.sender = e.sender and newer.begun_at is not null
    )
$$;
