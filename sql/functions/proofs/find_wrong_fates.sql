-- Positions of a stream's logs that have no fate, more than one, or one without being decided on. A fate: to be delivered, a duplicate, set
-- aside, held, or waiting behind a sender that stalled. Inlined in check_stream().
create or replace function relaybox.find_wrong_fates(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_log as materialized (
        select l.*, i.hop, i.first_kept_position
        from relaybox.stream s
        join relaybox.stream_log l on l.stream_id = s.stream_id
        join relaybox.hop_in i on i.hop_id = l.hop_id
        where s.stream = stream_name
    ), decided as materialized (
        select d.hop, d.hop_id, d.position, d.sender, d.epoch from relaybox.list_decided(stream_name) d
    ), fate as (
        select p.hop_id, p.position, 'place ' || p.place as fate
        from relaybox.stream s cross join lateral relaybox.stream_places(s.stream_id) p where s.stream = stream_name
        union all
        select d.hop_id, u.at, 'duplicate' from own_log o join relaybox.decision d on d.hop_id = o.hop_id cross join unnest(d.duplicates) u (at)
        union all
        select d.hop_id, d.position, 'set aside' from own_log o join relaybox.dead_letter d on d.hop_id = o.hop_id where d.subscription_id is null
        union all
        select h.hop_id, h.position, 'held' from own_log o join relaybox.held h on h.hop_id = o.hop_id
        union all
        select d.hop_id, d.position, 'waiting'
        from own_log o
        join relaybox.sender_state s on s.stream_id = o.stream_id and s.origin = o.origin and s.stalled_after is not null
        join decided d on d.hop_id = o.hop_id and d.sender = s.sender and d.epoch = s.epoch and d.position > s.stalled_after
    ), fates as materialized (
        select f.hop_id, f.position, array_agg(f.fate) as fates -- in any order, which needs no sort of all positions
        from fate f left join own_log o on o.hop_id = f.hop_id
        where (f.position < o.first_kept_position) is not true
        group by f.hop_id, f.position
    )
    select 'position_lost', d.position, format('position %s of %s has no place and no reason for it', d.position, d.hop)
    from decided d left join fates f on f.hop_id = d.hop_id and f.position = d.position where f.fates is null
    union all
    select 'position_decided_twice', f.position, format('position %s of %s: %s', f.position, o.hop, n.names)
    from fates f join own_log o on o.hop_id = f.hop_id
    cross join lateral (select string_agg(u.fate, ', ' order by u.fate) as names from unnest(f.fates) u (fate)) n
    where cardinality(f.fates) > 1
    union all
    select 'position_unknown', f.position,
        format('position %s of %s was never decided on: %s', f.position, coalesce(o.hop, 'log ' || f.hop_id), n.names)
    from fates f
    left join decided d on d.hop_id = f.hop_id and d.position = f.position
    left join own_log o on o.hop_id = f.hop_id
    cross join lateral (select string_agg(u.fate, ', ' order by u.fate) as names from unnest(f.fates) u (fate)) n
    where d.position is null
$$;
