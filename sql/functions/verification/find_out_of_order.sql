-- Messages of a stream whose index was delivered before, and messages that do not follow the one
-- before them of their sender in an order that promises it: an earlier index, a lower epoch, or a
-- gap that nothing explains. Inlined in check_stream().
create or replace function relaybox_internal.find_out_of_order(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox_internal.stream s where s.stream = stream_name
    ), delivered as materialized (
        select d.stream_position, d.log_position, d.sender, d.epoch, d.index
        from relaybox_internal.list_delivered(stream_name) d
    ), begun_epoch as materialized (
        select e.sender, max(e.epoch) as newest
        from own_stream o
        join relaybox_internal.sender_state e on e.stream_id = o.stream_id
            and e.begun_at is not null
        group by e.sender
    ), passed as materialized (
        select p.* from relaybox_internal.list_passed_indexes(stream_name) p
    ), forgotten as (
        -- the indexes of these messages are not known any more
        select exists (
            select from own_stream o
            join relaybox_internal.stream_log l on l.stream_id = o.stream_id
            join relaybox_internal.hop_in i on i.log_id = l.log_id
            join relaybox_internal.dead_letter d on d.log_id = l.log_id
                and d.log_position < i.first_kept_position
            where d.subscription_id is null and starts_with(d.reason, 'clock_')
        ) as has_any
    ), step as (
        select d.stream_position, d.sender, d.epoch, n.index,
            coalesce(
                lag(n.index) over of_epoch, case when o.first_kept_stream_position = 1 then 0 end
            ) as previous_index,
            max(d.epoch) over (partition by d.sender order by d.stream_position) as highest_epoch
        from delivered d
        -- messages of senders without numbers come in the log's order: their indexes are positions
        -- of a first log that may have been filled again
        cross join lateral (
            select case when d.epoch = 0 then d.log_position else d.index end as index
        ) n
        join own_stream o on d.stream_position >= o.first_kept_stream_position
            and (
                o.delivery_order in ('fifo', 'causal') or o.delivery_order = 'total' and d.epoch = 0
            )
        window of_epoch as (partition by d.sender, d.epoch order by d.stream_position)
    )
    select 'index_repeated', r.stream_position,
        format(
            'stream position %s: index %s of %s stands at stream position %s already',
            r.stream_position, r.index, r.sender, r.first_stream_position
        )
    from (
        select d.stream_position, d.sender, d.index,
            min(d.stream_position) over (
                partition by d.sender, d.epoch, d.index
            ) as first_stream_position
        from delivered d where d.epoch > 0
    ) r
    where r.stream_position > r.first_stream_position
    union all
    select 'sender_out_of_order', s.stream_position,
        format(
            'stream position %s: index %s of %s, epoch %s, follows index %s', s.stream_position,
            s.index, s.sender, s.epoch, s.previous_index
        )
    from step s
    left join passed p on p.sender = s.sender and p.epoch = s.epoch
    left join begun_epoch b on b.sender = s.sender
    where s.index <= s.previous_index or s.highest_epoch > s.epoch
        or s.epoch > 0 and s.index > s.previous_index + 1 and (b.newest > s.epoch) is not true
        and (p.indexes @> int8range(s.previous_index + 1, s.index)) is not true
        and not (select f.has_any from forgotten f)
$$;
