-- A locked lane's cursor, with nothing fetched, moved over its next messages: if there are any,
-- fetched_stream_position is beyond done_stream_position. Fewer than max_count where one of them
-- may have killed its worker (suspect_rows), or where the rate of a replay allows no more. Ends before
-- a message that is not due, or passes it: due_at is when the next one is, if the lane is held. Writes
-- dead letters of expired messages and of senders that wait, and the rows of passed messages, not the
-- cursor. Raises RB034 if the next message is no longer kept, RB038 if it is detached.
create or replace function relaybox_internal.find_new_messages(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription,
    stream relaybox_internal.stream, max_count bigint, asked_at timestamptz, worker text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    through_stream_position bigint
    := least(subscription.through_stream_position, stream.last_stream_position);
    scanned_through bigint;
    row_limit bigint := max_count;
    saved_up_rows numeric; -- what the rate of the replay allows now; null: there is no limit
    found_messages record;
    unfetched relaybox_internal.cursor;
    delayed_message record;
    passed_count bigint;
    scan_count bigint; -- of messages, those included that are passed; grows while all of them are
begin
    if lane_cursor.due_at > asked_at and subscription.delayed = 'hold' then
        return lane_cursor; -- it is held, as an earlier fetch found
    end if;
    lane_cursor.due_at := null;
    if lane_cursor.done_stream_position >= through_stream_position then
        return lane_cursor;
    end if;
    if lane_cursor.done_stream_position + 1 < stream.first_kept_stream_position then
        perform relaybox_internal.refuse_dropped(lane_cursor, subscription, stream);
    end if;
    if lane_cursor.suspect_stream_position > lane_cursor.done_stream_position then
        through_stream_position := least(
            through_stream_position, lane_cursor.suspect_stream_position
        );
        row_limit := least(row_limit, lane_cursor.suspect_rows);
    end if;
    if subscription.rows_per_second is not null
        and lane_cursor.done_stream_position < lane_cursor.replay_stream_position then
        saved_up_rows := relaybox_internal.rows_saved_up(lane_cursor, subscription, asked_at);
        row_limit := least(row_limit, floor(saved_up_rows));
        if row_limit < 1 then
            return lane_cursor;
        end if;
    end if;
    scan_count := row_limit;
    loop
        scanned_through := through_stream_position;
        if subscription.hold_sender then
            scanned_through := least(
                through_stream_position,
                lane_cursor.done_stream_position + row_limit * subscription.lanes * 2 + 100
            );
            perform relaybox_internal.dead_letter_followers(
                lane_cursor, subscription, lane_cursor.done_stream_position, scanned_through
            );
        end if;
        select s.through_stream_position, s.row_count into found_messages
        from relaybox_internal.scan_lane(
            subscription, lane_cursor.lane, lane_cursor.done_stream_position, scanned_through,
            scan_count
        ) s;
        lane_cursor.fetched_stream_position := found_messages.through_stream_position;
        if stream.has_delay and found_messages.row_count > 0 and subscription.delayed = 'hold' then
            select * into delayed_message from relaybox_internal.find_delayed(
                lane_cursor, subscription, lane_cursor.done_stream_position,
                lane_cursor.fetched_stream_position, asked_at, 1
            );
            if found then
                select s.through_stream_position, s.row_count into found_messages
                from relaybox_internal.scan_lane(
                    subscription, lane_cursor.lane, lane_cursor.done_stream_position,
                    delayed_message.stream_position - 1, row_limit
                ) s;
                lane_cursor.fetched_stream_position := found_messages.through_stream_position;
                if found_messages.row_count = 0 then
                    lane_cursor.done_stream_position := found_messages.through_stream_position;
                    lane_cursor.due_at := delayed_message.due_at;
                    return lane_cursor;
                end if;
            end if;
        elsif stream.has_delay and found_messages.row_count > 0 and subscription.delayed = 'pass' then
            passed_count := relaybox_internal.pass_delayed(
                lane_cursor, subscription, asked_at, worker
            );
            if passed_count > 0 or scan_count > row_limit then
                select s.through_stream_position, s.row_count into found_messages
                from relaybox_internal.scan_lane(
                    subscription, lane_cursor.lane, lane_cursor.done_stream_position,
                    lane_cursor.fetched_stream_position, row_limit
                ) s;
                lane_cursor.fetched_stream_position := found_messages.through_stream_position;
            end if;
            scan_count := least(scan_count * 10, 10000);
        end if;
        if stream.has_expiry and found_messages.row_count > 0 then
            unfetched := lane_cursor;
            unfetched.fetch_count := 0;
            unfetched.first_fetched_at := null;
            if relaybox_internal.set_aside_expired(unfetched, subscription, worker) > 0 then
                select s.row_count into found_messages.row_count
                from relaybox_internal.scan_lane(
                    subscription, lane_cursor.lane, lane_cursor.done_stream_position,
                    lane_cursor.fetched_stream_position, row_limit
                ) s;
                found_messages.through_stream_position := lane_cursor.fetched_stream_position;
            end if;
        end if;
        exit when found_messages.row_count > 0;
        lane_cursor.done_stream_position := found_messages.through_stream_position;
        -- many have expired or are passed: what is done so far is committed before the caller's
        -- statement times out
        if lane_cursor.done_stream_position >= through_stream_position
            or clock_timestamp() > asked_at + interval '5 seconds' then
            return lane_cursor;
        end if;
    end loop;
    if saved_up_rows is not null then
        lane_cursor.rate_from := asked_at - make_interval(secs => (
            (saved_up_rows - found_messages.row_count)
            * subscription.lanes / subscription.rows_per_second
        )::double precision);
    end if;
    lane_cursor.fetch_count := 1;
    if lane_cursor.suspect_stream_position <= lane_cursor.done_stream_position then
        lane_cursor.first_fetched_at := asked_at;
    elsif lane_cursor.suspect_rows > 1 then
        -- a part of a fetch that reached the limit: without ack or nack it shrinks the next time
        lane_cursor.fetch_count := subscription.crash_limit;
    end if;
    return lane_cursor;
end
$$;
