-- From where on each subscription to a log's stream needs the log. has_stopped: its lanes that have stood still for longer than
-- detach_after_seconds although something waits for them, in a log whose route detaches; an attach starts that time anew.
create or replace function relaybox_internal.list_subscription_holders(log_id_ integer)
returns table (subscription text, needs_from bigint, since timestamptz, policy text, has_stopped boolean)
language sql stable
as $$
    with own_log as (
        select l.stream_id, i.stopped_consumer, i.detach_after_seconds
        from relaybox_internal.stream_log l join relaybox_internal.hop_in i on i.log_id = l.log_id
        where l.log_id = log_id_
    ), detaching as (
        select o.detach_after_seconds as after_seconds, (
            select max(d.moved_at) from relaybox_internal.stream_log l join relaybox_internal.detached_segment d on d.log_id = l.log_id
            where l.stream_id = o.stream_id and d.state = 'attached'
        ) as attached_at
        from own_log o where o.stopped_consumer = 'detach'
    ), lane_behind as (
        select o.stream_id, o.stopped_consumer, n.subscription_id, n.subscription, c.done_stream_position,
        greatest(c.moved_at, c.leased_until) as active_at
        from own_log o
        join relaybox_internal.subscription n on n.stream_id = o.stream_id and n.ended_at is null
        join relaybox_internal.lane_cursors c on c.subscription_id = n.subscription_id
        -- a second cursor that came to its end needs nothing more
        where (c.done_stream_position >= n.through_stream_position) is not true
    ), classified_lane as (
        select b.*, exists (
            select from detaching d
            where greatest(b.active_at, d.attached_at, relaybox_internal.delivered_after(b.stream_id, b.done_stream_position))
                < now() - make_interval(secs => d.after_seconds)
        ) as has_stopped
        from lane_behind b
    ), holder as (
        select c.subscription_id, c.subscription, c.stopped_consumer, c.has_stopped,
            relaybox_internal.first_position_after(c.stream_id, log_id_, min(c.done_stream_position)) as needs_from,
            (
                select min(k.decided_at) from relaybox_internal.stream_log l join relaybox_internal.decision k on k.log_id = l.log_id
                where l.stream_id = c.stream_id and k.last_stream_position > min(c.done_stream_position)
            ) as since
        from classified_lane c
        group by c.subscription_id, c.subscription, c.stream_id, c.stopped_consumer, c.has_stopped
    )
    select h.subscription, h.needs_from, h.since, h.stopped_consumer, h.has_stopped
    from holder h
    order by h.subscription_id
$$;
