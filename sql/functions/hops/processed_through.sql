-- Returns the position of a log through which subscriptions of its stream have processed every
-- message, and when the last of their cursors moved. What an ended subscription of the same name set
-- aside is not processed before it is dropped, unless the open one begins before it and gets it too.
-- One statement, one snapshot.
create or replace function relaybox_internal.processed_through(
    stream_id_ integer, log_id_ integer, subscriptions text[]
)
returns table (through_position bigint, happened_at timestamptz)
language sql stable
as $$
    select
        case
            when r.done_stream_position >= s.last_stream_position
                then relaybox_internal.resolved_position(log_id_)
            else coalesce((
                select k.resolved_position from relaybox_internal.decision k
                where k.log_id = log_id_ and k.last_stream_position <= r.done_stream_position
                    and k.resolved_position is not null
                order by k.last_stream_position desc, k.batch desc
                limit 1
            ), 0)
        end,
        r.moved_at
    from relaybox_internal.stream s
    cross join lateral (
        select
            min(least(
                greatest(c.done_stream_position, c.replay_stream_position),
                dead_letter.stream_position - 1, left_behind.stream_position - 1
            )) as done_stream_position,
            max(c.moved_at) as moved_at
        from relaybox_internal.subscription n
        join relaybox_internal.lane_cursors c on c.subscription_id = n.subscription_id
        cross join lateral (
            select min(d.stream_position) as stream_position
            from relaybox_internal.dead_letter d
            where d.subscription_id = c.subscription_id and d.lane = c.lane
                and d.state in ('open', 'redriving', 'delayed') and not d.acknowledged_before
        ) dead_letter
        cross join lateral (
            select min(d.stream_position) as stream_position
            from relaybox_internal.subscription e
            join relaybox_internal.dead_letter d on d.subscription_id = e.subscription_id
            where e.subscription = n.subscription and e.stream_id = n.stream_id
                and e.ended_at is not null and d.stream_position < n.first_stream_position
                and d.state in ('open', 'redriving') and not d.acknowledged_before
        ) left_behind
        where n.subscription = any(subscriptions) and n.stream_id = stream_id_
            and n.ended_at is null and n.replay_of is null
    ) r
    where s.stream_id = stream_id_
$$;
