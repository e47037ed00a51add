-- The first position of a log that its stream still needs, and the first that always stays, by
-- kind. log_holders() says what each kind means, and inlines this function.
create or replace function relaybox_internal.list_stream_holders(log_id_ integer)
returns table (kind text, holder text, needs_from bigint, since timestamptz)
language sql stable
as $$
    with own_log as (
        select
            i.hop, i.published_position, l.origin, l.decided_position, l.decided_batch,
            s.stream_id, s.last_stream_position
        from relaybox_internal.hop_in i
        left join relaybox_internal.stream_log l on l.log_id = i.log_id
        left join relaybox_internal.stream s on s.stream_id = l.stream_id
        where i.log_id = log_id_
    )
    select
        'newest', o.hop,
        least(o.published_position, relaybox_internal.first_position_after(
            o.stream_id, log_id_, o.last_stream_position - 1
        )),
        null::timestamptz
    from own_log o
    union all
    select
        'undecided', o.hop, coalesce(o.decided_position, 0) + 1,
        (
            select a.published_at from relaybox_internal.arrival a
            where a.log_id = log_id_ and a.batch > coalesce(o.decided_batch, 0)
            order by a.batch limit 1
        )
    from own_log o where o.decided_position is distinct from o.published_position
    union all
    (
        select 'held', e.sender, h.log_position, h.held_at
        from relaybox_internal.held h
        join relaybox_internal.sender_state e on e.sender_id = h.sender_id
        where h.log_id = log_id_ order by h.log_position limit 1
    )
    union all
    (
        select 'stalled', e.sender, e.stalled_after + 1, e.moved_at
        from own_log o
        join relaybox_internal.sender_state e on e.stream_id = o.stream_id
            and e.origin = o.origin and e.stalled_after is not null
        order by e.stalled_after limit 1
    )
$$;
