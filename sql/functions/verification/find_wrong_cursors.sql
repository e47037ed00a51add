-- Cursors of a stream's subscriptions that are beyond the stream, that skip a version, or that
-- moved past messages which were never fetched. Inlined in check_decisions().
create or replace function relaybox_internal.find_wrong_cursors(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with moved as materialized (
        select n as subscription, s.last_stream_position, s.has_delay, c as lane_cursor,
            c.lane, c.version, c.done_stream_position, c.fetched_stream_position, lag(c.version) over lane_order as version_before,
            greatest(
                lag(c.fetched_stream_position) over lane_order,
                lag(c.replay_stream_position) over lane_order
            ) as reachable_stream_position
        from relaybox_internal.stream s
        join relaybox_internal.subscription n
            on n.stream_id = s.stream_id and n.ended_at is null and n.replay_of is null
        join relaybox_internal.cursor c on c.subscription_id = n.subscription_id
        where s.stream = stream_name
        window lane_order as (partition by c.subscription_id, c.lane order by c.version)
    )
    select 'cursor_contradicts', c.done_stream_position,
        format(
            'subscription %s, lane %s is done through stream position %s, '
            'the stream ends at stream position %s',
            (c.subscription).subscription, c.lane, c.done_stream_position, c.last_stream_position
        )
    from moved c
    where greatest(c.done_stream_position, c.fetched_stream_position) > c.last_stream_position
    union all
    select 'cursor_contradicts', c.done_stream_position,
        format(
            'subscription %s, lane %s: version %s follows version %s',
            (c.subscription).subscription, c.lane, c.version, c.version_before
        )
    from moved c
    where c.version <> c.version_before + 1
    union all
    -- version 2 may be a cursor that was restored (relaybox rebuild)
    select 'cursor_contradicts', c.done_stream_position,
        format(
            'subscription %s, lane %s went to stream position %s, '
            'fetched were stream positions through %s',
            (c.subscription).subscription, c.lane, c.done_stream_position,
            c.reachable_stream_position
        )
    from moved c
    where c.done_stream_position > c.reachable_stream_position and c.version > 2
        and c.done_stream_position <= c.last_stream_position
        and (
            select n.row_count from relaybox_internal.scan_lane(
                c.subscription, c.lane, c.reachable_stream_position, c.done_stream_position,
                c.done_stream_position - c.reachable_stream_position
            ) n
        ) > (
            -- no fetch of the cursor gave these: set aside before it came there and redriven since, or
            -- passed, given when they were due, and acknowledged, which leaves no row
            select count(*) from (
                select d.stream_position from relaybox_internal.dead_letter d
                where d.subscription_id = (c.subscription).subscription_id and d.lane = c.lane
                    and d.stream_position > c.reachable_stream_position
                    and d.stream_position <= c.done_stream_position
                    and d.state = 'redriven' and not d.given_ahead
                union
                select f.stream_position
                from relaybox_internal.find_delayed(
                    c.lane_cursor, c.subscription, c.reachable_stream_position,
                    c.done_stream_position, '-infinity', null
                ) f
                where c.has_delay
            ) not_fetched
        )
$$;
