-- Messages of a stream whose index was delivered before, and those that do not follow the one before them of their sender, in an order
-- that promises it: an earlier index, a lower epoch, or a gap that nothing explains. Inlined in check_stream().
create or replace function relaybox.find_out_of_order(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox.stream s where s.stream = stream_name
    ), delivered as materialized (
        select d.place, d.position, d.sender, d.epoch, d.index from relaybox.list_delivered(stream_name) d
    ), begun_epoch as materialized (
        select e.sender, max(e.epoch) as newest
        from own_stream o join relaybox.sender_state e on e.stream_id = o.stream_id and e.begun_at is not null group by e.sender
    ), passed as materialized (
        select p.* from relaybox.list_passed_indexes(stream_name) p
    ), forgotten as (
        -- which indexes these were can't be told any more
        select exists (
            select
            from own_stream o
            join relaybox.stream_log l on l.stream_id = o.stream_id
            join relaybox.hop_in i on i.hop_id = l.hop_id
            join relaybox.dead_letter d on d.hop_id = l.hop_id and d.position < i.first_kept_position
            where d.subscription_id is null and starts_with(d.reason, 'clock_')
        ) as has_any
    ), step as (
        select d.place, d.sender, d.epoch, n.index,
            coalesce(lag(n.index) over of_epoch, case when o.first_kept_place = 1 then 0 end) as previous_index,
            max(d.epoch) over (partition by d.sender order by d.place) as highest_epoch
        from delivered d
        -- senders without numbers come as the log has them: their indexes are positions of a first log that may have been filled anew
        cross join lateral (select case when d.epoch = 0 then d.position else d.index end as index) n
        join own_stream o on d.place >= o.first_kept_place
            and (o.delivery_order in ('fifo', 'causal') or o.delivery_order = 'total' and d.epoch = 0)
        window of_epoch as (partition by d.sender, d.epoch order by d.place)
    )
    select 'index_repeated', r.place, format('place %s: index %s of %s stands at place %s already', r.place, r.index, r.sender, r.first_place)
    from (
        select d.place, d.sender, d.index, min(d.place) over (partition by d.sender, d.epoch, d.index) as first_place from delivered d where d.epoch > 0
    ) r
    where r.place > r.first_place
    union all
    select 'sender_out_of_order', s.place,
        format('place %s: index %s of %s, epoch %s, follows index %s', s.place, s.index, s.sender, s.epoch, s.previous_index)
    from step s
    left join passed p on p.sender = s.sender and p.epoch = s.epoch
    left join begun_epoch b on b.sender = s.sender
    where s.index <= s.previous_index or s.highest_epoch > s.epoch
        or s.epoch > 0 and s.index > s.previous_index + 1 and (b.newest > s.epoch) is not true
        and (p.indexes @> int8range(s.previous_index + 1, s.index)) is not true and not (select f.has_any from forgotten f)
$$;
