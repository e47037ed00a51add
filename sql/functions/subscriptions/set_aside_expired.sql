-- Sets aside the messages of a locked lane's fetch that have expired, by this server's clock: dead
-- letters of the reason `expired`. Returns how many. None is set aside where history is read: by a
-- second cursor, by a streaming query, or again by the cursor of a replay. Writes dead letters, not
-- the cursor.
create or replace function relaybox_internal.set_aside_expired(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription, worker text
)
returns bigint
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    asked_at timestamptz := clock_timestamp();
    set_aside_stream_positions bigint[];
    expired record;
    expired_count bigint := 0;
begin
    if subscription.query is not null then
        return 0;
    end if;
    set_aside_stream_positions := relaybox_internal.set_aside_stream_positions(
        subscription, lane_cursor.done_stream_position, lane_cursor.fetched_stream_position
    );
    for expired in
        select m.stream_position, relaybox_internal.expires_at(m.headers) as expired_at
        from relaybox_internal.list_delivery_runs(
            subscription.stream_id,
            greatest(lane_cursor.done_stream_position, lane_cursor.replay_stream_position),
            lane_cursor.fetched_stream_position
        ) r
        cross join lateral (
            select p.stream_position, p.topic, p.sender, p.key, p.headers
            from relaybox_internal.read_position_range(
                r.log_id, r.first_stream_position, r.first_position, r.last_position
            ) p
            where r.log_positions is null
            union all
            select p.stream_position, p.topic, p.sender, p.key, p.headers
            from relaybox_internal.read_position_list(
                r.log_id, r.first_stream_position, r.log_positions
            ) p
            where r.log_positions is not null
        ) m
        where relaybox_internal.takes_message(
            subscription.topic, subscription.lanes, subscription.lane_by, lane_cursor.lane,
            m.topic, m.sender, m.key
        )
        and relaybox_internal.expires_at(m.headers) <= asked_at
        and m.stream_position <> all(set_aside_stream_positions)
        order by m.stream_position
    loop
        -- one that waits behind an earlier one since this loop began keeps that reason
        if relaybox_internal.set_aside_stream_positions(
            subscription, expired.stream_position - 1, expired.stream_position
        ) = '{}' then
            perform relaybox_internal.set_aside(
                lane_cursor, subscription, expired.stream_position, 'expired',
                format('expired at %s', expired.expired_at), lane_cursor.fetch_count,
                coalesce(lane_cursor.worker, worker)
            );
            expired_count := expired_count + 1;
        end if;
    end loop;
    return expired_count;
end
$$;
