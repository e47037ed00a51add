-- The stream positions of a fetch of the only lane of a subscription without a topic, as
-- relaybox.fetch() would return them: without those that are set aside, or redriven dead letters.
create or replace function relaybox_internal.fetched_positions(
    subscription_ relaybox_internal.subscription, lane_cursor relaybox_internal.cursor
)
returns int8multirange
language sql stable
as $$
    select case
        when lane_cursor.redrive_stream_position is null then
            int8multirange(int8range(
                lane_cursor.done_stream_position, lane_cursor.fetched_stream_position, '(]'
            )) - coalesce((
                select range_agg(int8range(p.stream_position, p.stream_position, '[]'))
                from unnest(relaybox_internal.set_aside_stream_positions(
                    subscription_, lane_cursor.done_stream_position,
                    lane_cursor.fetched_stream_position
                )) p (stream_position)
            ), '{}')
        else (
            select range_agg(int8range(d.stream_position, d.stream_position, '[]'))
            from relaybox_internal.dead_letter d
            where d.subscription_id = lane_cursor.subscription_id and d.lane = lane_cursor.lane
                and d.state = 'redriving'
                and d.stream_position <= lane_cursor.redrive_stream_position
        )
    end
$$;
