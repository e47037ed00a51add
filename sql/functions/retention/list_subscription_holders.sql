-- The first position of a log that each subscription to its stream needs. has_stopped: this row is
-- of the lanes that have not moved for detach_after_seconds although messages wait for them, and are
-- due, in a log whose route detaches. An attach starts that time anew.
create or replace function relaybox_internal.list_subscription_holders(log_id_ integer)
returns table (
    subscription text, needs_from bigint, since timestamptz, policy text, has_stopped boolean
)
language sql stable
as $$
    with own_log as (
        select l.stream_id, i.stopped_consumer, i.detach_after_seconds
        from relaybox_internal.stream_log l
        join relaybox_internal.hop_in i on i.log_id = l.log_id
        where l.log_id = log_id_
    ), detaching as (
        select o.detach_after_seconds as after_seconds, (
            select max(d.moved_at) from relaybox_internal.stream_log l
            join relaybox_internal.detached_segment d on d.log_id = l.log_id
            where l.stream_id = o.stream_id and d.state = 'attached'
        ) as attached_at
        from own_log o where o.stopped_consumer = 'detach'
    ), lane_behind as (
        select
            o.stream_id, o.stopped_consumer, n.subscription_id, n.subscription,
            lane.done_stream_position, lane.due_at,
            -- a time in the future is of a clock that was ahead
            greatest(
                case when lane.moved_at <= now() then lane.moved_at end,
                case
                    when lane.leased_until <= now() + make_interval(secs => n.lease_seconds)
                        then lane.leased_until
                end
            ) as active_at
        from own_log o
        join relaybox_internal.subscription n on n.stream_id = o.stream_id and n.ended_at is null
        join relaybox_internal.lane_cursors lane on lane.subscription_id = n.subscription_id
        -- a second cursor that came to its end needs nothing more
        where (lane.done_stream_position >= n.through_stream_position) is not true
    ), classified_lane as (
        select behind.*, exists (
            select from detaching d
            where greatest(
                behind.active_at, d.attached_at, behind.due_at,
                relaybox_internal.delivered_after(behind.stream_id, behind.done_stream_position)
            ) < now() - make_interval(secs => d.after_seconds)
        ) as has_stopped
        from lane_behind behind
    ), holder as (
        select
            lane.subscription_id, lane.subscription, lane.stopped_consumer, lane.has_stopped,
            relaybox_internal.first_position_after(
                lane.stream_id, log_id_, min(lane.done_stream_position)
            ) as needs_from,
            (
                -- of each log the first such decision, along its index: not all later ones
                select min(first.decided_at) from relaybox_internal.stream_log l
                cross join lateral (
                    select d.decided_at from relaybox_internal.decision d
                    where d.log_id = l.log_id
                        and d.last_stream_position > min(lane.done_stream_position)
                    order by d.last_stream_position
                    limit 1
                ) first
                where l.stream_id = lane.stream_id
            ) as since
        from classified_lane lane
        group by
            lane.subscription_id, lane.subscription, lane.stream_id, lane.stopped_consumer,
            lane.has_stopped
    )
    select h.subscription, h.needs_from, h.since, h.stopped_consumer, h.has_stopped
    from holder h
    order by h.subscription_id
$$;
