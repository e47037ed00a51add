-- How far a range of a second cursor has been read, by its slowest lane. Reads only. No row for a
-- range that is unknown.
create or replace function relaybox_internal.replay_progress(replay_ bigint)
returns table (
    replayed_as text, first_stream_position bigint, last_stream_position bigint,
    done_stream_position bigint, leased_lanes bigint, moved_at timestamptz,
    is_done boolean, is_cancelled boolean
)
language sql stable
as $$
    select
        s.subscription, r.first_stream_position, r.last_stream_position,
        case
            when r.done_at is not null then r.last_stream_position
            else least(
                greatest(lanes.done_stream_position, r.first_stream_position - 1),
                r.last_stream_position
            )
        end,
        coalesce(lanes.leased_lanes, 0), lanes.moved_at,
        r.done_at is not null
        or coalesce(lanes.done_stream_position >= r.last_stream_position, false),
        r.done_at is null and s.ended_at is not null
    from relaybox_internal.replay_range r
    join relaybox_internal.subscription s on s.subscription_id = r.subscription_id
    left join lateral (
        select
            min(c.done_stream_position) as done_stream_position, max(c.moved_at) as moved_at,
            count(*) filter (
                where relaybox_internal.has_time_left(c.leased_until, s.lease_seconds)
            ) as leased_lanes
        from relaybox_internal.lane_cursors c
        where c.subscription_id = r.subscription_id
    ) lanes on true
    where r.replay_range_id = replay_
$$;
