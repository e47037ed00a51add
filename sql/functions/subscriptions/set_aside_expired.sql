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
    stream_positions bigint[];
    log_ids integer[];
    log_positions bigint[];
    senders text[];
    details text[];
    expired_count bigint := 0;
begin
    if subscription.query is not null then
        return 0;
    end if;
    set_aside_stream_positions := relaybox_internal.set_aside_stream_positions(
        subscription, lane_cursor.done_stream_position, lane_cursor.fetched_stream_position
    );
    select
        array_agg(m.stream_position order by m.stream_position),
        array_agg(m.log_id order by m.stream_position),
        array_agg(m.log_position order by m.stream_position),
        array_agg(m.sender order by m.stream_position),
        array_agg(
            format('expired at %s', relaybox_internal.expires_at(m.headers)) order by m.stream_position
        )
    into stream_positions, log_ids, log_positions, senders, details
    from relaybox_internal.list_delivery_runs(
        subscription.stream_id,
        greatest(lane_cursor.done_stream_position, lane_cursor.replay_stream_position),
        lane_cursor.fetched_stream_position
    ) r
    cross join lateral (
        select r.log_id, p.log_position, p.stream_position, p.topic, p.sender, p.key, p.headers
        from relaybox_internal.read_position_range(
            r.log_id, r.first_stream_position, r.first_position, r.last_position
        ) p
        where r.log_positions is null
        union all
        select r.log_id, p.log_position, p.stream_position, p.topic, p.sender, p.key, p.headers
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
    and m.stream_position <> all(set_aside_stream_positions);
    if stream_positions is null then
        return 0;
    end if;
    if subscription.hold_sender then
        for n in 1..cardinality(stream_positions) loop
            -- one that waits behind an earlier one since this loop began keeps that reason
            if relaybox_internal.set_aside_stream_positions(
                subscription, stream_positions[n] - 1, stream_positions[n]
            ) = '{}' then
                perform relaybox_internal.set_aside(
                    lane_cursor, subscription, stream_positions[n], 'expired', details[n],
                    lane_cursor.fetch_count, coalesce(lane_cursor.worker, worker)
                );
                expired_count := expired_count + 1;
            end if;
        end loop;
        return expired_count;
    end if;
    -- as set_aside() of each: a million in one statement
    insert into relaybox_internal.dead_letter as d (
        stream_id, log_id, log_position, reason, detail, subscription_id, lane, stream_position,
        sender, attempts, last_by, first_at, acknowledged_before
    )
    select
        subscription.stream_id, e.log_id, e.log_position, 'expired', e.detail,
        subscription.subscription_id, lane_cursor.lane, e.stream_position, e.sender,
        lane_cursor.fetch_count, coalesce(lane_cursor.worker, worker),
        coalesce(least(lane_cursor.first_fetched_at, (
            select f.first_at from relaybox_internal.failed_attempt f
            where f.subscription_id = subscription.subscription_id and f.lane = lane_cursor.lane
                and f.stream_position = e.stream_position
        )), clock_timestamp()),
        e.stream_position <= lane_cursor.replay_stream_position
    from unnest(stream_positions, log_ids, log_positions, senders, details)
        as e (stream_position, log_id, log_position, sender, detail)
    on conflict (subscription_id, stream_position) do update
    set state = 'open', reason = excluded.reason, detail = excluded.detail,
        attempts = d.attempts + excluded.attempts,
        last_at = clock_timestamp(), last_by = excluded.last_by, resolved_at = null,
        resolved_by = null, resolved_reason = null, given_ahead = false,
        acknowledged_before = d.acknowledged_before or d.state = 'redriven';
    delete from relaybox_internal.failed_attempt f
    where f.subscription_id = subscription.subscription_id and f.lane = lane_cursor.lane
        and f.stream_position = any(stream_positions);
    return cardinality(stream_positions);
end
$$;
