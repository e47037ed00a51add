-- The recorded fates of the positions of a stream's logs: a stream position, a duplicate, set aside
-- or held. Inlined in find_wrong_fates(), which adds what waits behind a stalled sender.
create or replace function relaybox_internal.list_fates(stream_name text)
returns table (log_id integer, log_position bigint, fate text)
language sql stable
as $$
    with own_log as materialized (
        select l.log_id
        from relaybox_internal.stream s
        join relaybox_internal.stream_log l on l.stream_id = s.stream_id
        where s.stream = stream_name
    )
    select p.log_id, p.log_position, 'stream position ' || p.stream_position
    from relaybox_internal.stream s
    cross join lateral relaybox_internal.list_stream_positions(s.stream_id) p
    where s.stream = stream_name
    union all
    select d.log_id, u.at, 'duplicate'
    from own_log o
    join relaybox_internal.decision d on d.log_id = o.log_id
    cross join unnest(d.duplicates) u (at)
    union all
    select d.log_id, d.log_position, 'set aside'
    from own_log o
    join relaybox_internal.dead_letter d on d.log_id = o.log_id
    where d.subscription_id is null
    union all
    select h.log_id, h.log_position, 'held'
    from own_log o
    join relaybox_internal.held h on h.log_id = o.log_id
$$;
