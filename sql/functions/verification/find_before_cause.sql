-- Messages of a causal stream that come before a message that their clock names, or whose named
-- message was never delivered although nothing explains that. Inlined in check_stream().
create or replace function relaybox_internal.find_before_cause(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with causal_stream as materialized (
        select *
        from relaybox_internal.stream s where s.stream = stream_name and s.delivery_order = 'causal'
    ), delivered as materialized (
        select d.* from relaybox_internal.list_delivered(stream_name) d
        where exists (select from causal_stream)
    ), begun_epoch as materialized (
        select e.sender, max(e.epoch) as newest
        from causal_stream o
        join relaybox_internal.sender_state e on e.stream_id = o.stream_id
            and e.begun_at is not null
        group by e.sender
    ), passed as materialized (
        select p.* from relaybox_internal.list_passed_indexes(stream_name) p
    ), named as (
        select d.stream_position, e.sender, e.epoch, e.index
        from causal_stream o
        join delivered d on d.clock is not null
            and d.stream_position >= o.first_kept_stream_position
        cross join lateral relaybox_internal.clock_entries(
            case
                when relaybox_internal.clock_is_valid(d.clock, d.sender, d.epoch, d.index)
                    then d.clock
            end
        ) e
        where e.sender <> d.sender
    )
    select 'before_its_cause', n.stream_position,
        format(
            'stream position %s comes before index %s of %s, which %s', n.stream_position, n.index,
            n.sender,
            coalesce('stands at stream position ' || cause.stream_position, 'was not delivered')
        )
    from named n
    left join delivered cause on cause.sender = n.sender and cause.epoch = n.epoch
        and cause.index = n.index
    left join passed p on p.sender = n.sender and p.epoch = n.epoch
    left join begun_epoch b on b.sender = n.sender
    where cause.stream_position > n.stream_position
        or cause.stream_position is null and (p.indexes @> n.index) is not true
        and (b.newest > n.epoch) is not true and not exists (
            select
            from causal_stream o join relaybox_internal.sender_state e on e.stream_id = o.stream_id
            where o.first_kept_stream_position > 1 and e.sender = n.sender and e.epoch = n.epoch
                and e.watermark >= n.index
        )
$$;
