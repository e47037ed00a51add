-- Positions of a stream's logs that have no fate, more than one, or one without being decided on. A
-- fate: to be delivered, a duplicate, set aside, held, or waiting behind a stalled sender. Inlined
-- in check_stream().
create or replace function relaybox_internal.find_wrong_fates(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_log as materialized (
        select l.*, i.hop, i.first_kept_position
        from relaybox_internal.stream s
        join relaybox_internal.stream_log l on l.stream_id = s.stream_id
        join relaybox_internal.hop_in i on i.log_id = l.log_id
        where s.stream = stream_name
    ), decided as materialized (
        select d.hop, d.log_id, d.log_position, d.sender, d.epoch
        from relaybox_internal.list_decided(stream_name) d
    ), fate as (
        select f.log_id, f.log_position, f.fate from relaybox_internal.list_fates(stream_name) f
        union all
        select d.log_id, d.log_position, 'waiting'
        from own_log o
        join relaybox_internal.sender_state s on s.stream_id = o.stream_id and s.origin = o.origin
            and s.stalled_after is not null
        join decided d on d.log_id = o.log_id and d.sender = s.sender and d.epoch = s.epoch
            and d.log_position > s.stalled_after
    ), fates as materialized (
        -- in any order: this needs no sort of all positions
        select f.log_id, f.log_position, array_agg(f.fate) as fates
        from fate f left join own_log o on o.log_id = f.log_id
        where (f.log_position < o.first_kept_position) is not true
        group by f.log_id, f.log_position
    )
    select 'position_lost', d.log_position,
        format(
            'position %s of %s has no stream position and no reason for it', d.log_position, d.hop
        )
    from decided d
    left join fates f on f.log_id = d.log_id and f.log_position = d.log_position
    where f.fates is null
    union all
    select 'position_decided_twice', f.log_position,
        format('position %s of %s: %s', f.log_position, o.hop, n.names)
    from fates f join own_log o on o.log_id = f.log_id
    cross join lateral (
        select string_agg(u.fate, ', ' order by u.fate) as names from unnest(f.fates) u (fate)
    ) n
    where cardinality(f.fates) > 1
    union all
    select 'position_unknown', f.log_position,
        format(
            'position %s of %s was never decided on: %s', f.log_position,
            coalesce(o.hop, 'log ' || f.log_id), n.names
        )
    from fates f
    left join decided d on d.log_id = f.log_id and d.log_position = f.log_position
    left join own_log o on o.log_id = f.log_id
    cross join lateral (
        select string_agg(u.fate, ', ' order by u.fate) as names from unnest(f.fates) u (fate)
    ) n
    where d.log_position is null
$$;
