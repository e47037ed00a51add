-- For each open subscription: how many stream positions its lanes and its slowest lane are behind,
-- and for how many seconds the oldest message has waited. waiting_seconds is null if none waits. A
-- delayed message waits from when it is due, and those behind it in its lane with it.
create or replace function relaybox_internal.subscription_delays()
returns table (
    subscription text, stream text, stream_id integer,
    behind numeric, furthest_behind bigint, waiting_seconds numeric
)
language sql stable
as $$
    with
    -- Many lanes have the same stream position: the decision after it is looked up once.
    lanes as (
        select
            u.subscription_id, u.subscription, u.stream_id, c.done_stream_position, c.due_at,
            count(*) as lane_count, min(passed.due_at) as passed_due_at,
            -- a time in the future is of a clock that was ahead
            min(c.moved_at) filter (where c.moved_at <= now()) as moved_at,
            greatest(
                0,
                least(u.through_stream_position, s.last_stream_position) - c.done_stream_position
            ) as stream_positions_behind
        from relaybox_internal.subscription u
        join relaybox_internal.stream s on s.stream_id = u.stream_id
        join relaybox_internal.lane_cursors c on c.subscription_id = u.subscription_id
        cross join lateral (
            select min(d.due_at) as due_at from relaybox_internal.dead_letter d
            where s.has_delay and d.subscription_id = c.subscription_id and d.lane = c.lane
                and d.state = 'delayed'
        ) passed
        where u.ended_at is null
        group by
            u.subscription_id, u.subscription, u.stream_id, c.done_stream_position, c.due_at,
            s.last_stream_position
    ),
    waiting as (
        select p.stream_id, p.done_stream_position, min(first.decided_at) as since
        from (
            select distinct l.stream_id, l.done_stream_position
            from lanes l where l.stream_positions_behind > 0
        ) p
        join relaybox_internal.stream_log g on g.stream_id = p.stream_id
        cross join lateral (
            select k.decided_at from relaybox_internal.decision k
            where k.log_id = g.log_id and k.last_stream_position > p.done_stream_position
            order by k.last_stream_position
            limit 1
        ) first
        group by p.stream_id, p.done_stream_position
    )
    select
        l.subscription, s.stream, s.stream_id,
        sum(l.stream_positions_behind * l.lane_count),
        max(l.stream_positions_behind),
        max(greatest(
            case when l.stream_positions_behind > 0 and (l.due_at > now()) is not true
                then extract(epoch from now() - greatest(w.since, l.moved_at, l.due_at))
            end,
            case when l.passed_due_at <= now()
                then extract(epoch from now() - greatest(l.passed_due_at, l.moved_at))
            end
        ))
    from lanes l
    join relaybox_internal.stream s on s.stream_id = l.stream_id
    left join waiting w
        on w.stream_id = l.stream_id and w.done_stream_position = l.done_stream_position
    group by l.subscription_id, l.subscription, s.stream, s.stream_id
$$;
