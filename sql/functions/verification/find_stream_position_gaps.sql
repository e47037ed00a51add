-- Stream positions that are not 1, 2, 3 ...: each run has to begin after the one before it, and the
-- last one has to end at last_stream_position. Inlined in check_stream().
create or replace function relaybox_internal.find_stream_position_gaps(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox_internal.stream s where s.stream = stream_name
    ), delivery_run as (
        select
            greatest(d.first_stream_position, o.first_kept_stream_position)
                as first_stream_position,
            lag(
                d.last_stream_position, 1, o.first_kept_stream_position - 1
            ) over (order by d.last_stream_position) as previous_stream_position
        from relaybox_internal.delivery d
        join own_stream o on o.stream_id = d.stream_id
            and d.last_stream_position >= o.first_kept_stream_position
        union all
        select o.last_stream_position + 1,
            coalesce(max(d.last_stream_position), o.first_kept_stream_position - 1)
        from own_stream o
        left join relaybox_internal.delivery d on d.stream_id = o.stream_id
            and d.last_stream_position >= o.first_kept_stream_position
        group by o.last_stream_position, o.first_kept_stream_position
    )
    select 'stream_positions_not_dense', r.previous_stream_position,
        format(
            'stream position %s follows stream position %s', r.first_stream_position,
            r.previous_stream_position
        )
    from delivery_run r where r.first_stream_position <> r.previous_stream_position + 1
$$;
