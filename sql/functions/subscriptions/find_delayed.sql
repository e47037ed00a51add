-- The messages of a lane in a range of stream positions that are not due at a time, in order, without
-- those that are set aside. Positions that the lane had acknowledged before are not looked at: a replay
-- reads history. Locks nothing.
create or replace function relaybox_internal.find_delayed(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription,
    after_stream_position bigint, through_stream_position bigint, asked_at timestamptz,
    max_count bigint
)
returns table (
    stream_position bigint, log_id integer, log_position bigint, sender text, due_at timestamptz
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    unread_after bigint := greatest(after_stream_position, lane_cursor.replay_stream_position);
    set_aside_stream_positions bigint[] := relaybox_internal.set_aside_stream_positions(
        subscription, unread_after, through_stream_position
    );
begin
    return query
    select m.stream_position, r.log_id, m.log_position, m.sender, m.due_at
    from relaybox_internal.list_delivery_runs(
        subscription.stream_id, unread_after, through_stream_position
    ) r
    cross join lateral (
        select p.stream_position, p.log_position, p.topic, p.sender, p.key,
            relaybox_internal.due_at(p.headers) as due_at
        from relaybox_internal.read_position_range(
            r.log_id, r.first_stream_position, r.first_position, r.last_position
        ) p
        where r.log_positions is null
        union all
        select p.stream_position, p.log_position, p.topic, p.sender, p.key,
            relaybox_internal.due_at(p.headers)
        from relaybox_internal.read_position_list(
            r.log_id, r.first_stream_position, r.log_positions
        ) p
        where r.log_positions is not null
    ) m
    where m.due_at > asked_at
        and relaybox_internal.takes_message(
            subscription.topic, subscription.lanes, subscription.lane_by, lane_cursor.lane,
            m.topic, m.sender, m.key
        )
        and m.stream_position <> all(set_aside_stream_positions)
    order by m.stream_position
    limit max_count;
end
$$;
