-- A locked lane's cursor, which has nothing fetched, after its next messages are found: fetched_place is beyond done_place then. Fewer than
-- max_count where one of them may have killed its worker (suspect_rows), or a replay's rate allows no more. Writes dead letters of senders
-- that wait, not the cursor itself. Raises RB034 if what comes next is no longer kept, RB038 if it is detached.
create or replace function relaybox.find_new_messages(
    lane_cursor relaybox.cursor, subscription relaybox.subscription, stream relaybox.stream, max_count bigint, asked_at timestamptz
)
returns relaybox.cursor
language plpgsql volatile
as $$
declare
    through_place bigint := least(subscription.through_place, stream.last_place);
    scanned_through bigint;
    row_limit bigint := max_count;
    rows_saved_up numeric;
    found_messages record;
begin
    if lane_cursor.done_place >= through_place then
        return lane_cursor;
    end if;
    if lane_cursor.done_place + 1 < stream.first_kept_place then
        perform relaybox.refuse_dropped(lane_cursor, subscription, stream);
    end if;
    if lane_cursor.suspect_place > lane_cursor.done_place then
        through_place := least(through_place, lane_cursor.suspect_place);
        row_limit := least(row_limit, lane_cursor.suspect_rows);
    end if;
    if subscription.rows_per_second is not null and lane_cursor.done_place < lane_cursor.replay_place then
        rows_saved_up := least(
            extract(epoch from asked_at - coalesce(lane_cursor.rate_from, asked_at - interval '1 second'))
            * subscription.rows_per_second / subscription.lanes,
            greatest(subscription.rows_per_second / subscription.lanes, 1)
        );
        row_limit := least(row_limit, floor(rows_saved_up));
        if row_limit < 1 then
            return lane_cursor;
        end if;
    end if;
    loop
        scanned_through := through_place;
        if subscription.hold_sender then
            scanned_through := least(through_place, lane_cursor.done_place + row_limit * subscription.lanes * 2 + 100);
            perform relaybox.hold_back(lane_cursor, subscription, lane_cursor.done_place, scanned_through);
        end if;
        select s.through_place, s.row_count into found_messages
        from relaybox.scan_lane(subscription, lane_cursor.lane, lane_cursor.done_place, scanned_through, row_limit) s;
        lane_cursor.fetched_place := found_messages.through_place;
        exit when found_messages.row_count > 0;
        lane_cursor.done_place := found_messages.through_place;
        if lane_cursor.done_place >= through_place then
            return lane_cursor;
        end if;
    end loop;
    lane_cursor.first_fetched_at := case
        when lane_cursor.suspect_place > lane_cursor.done_place then lane_cursor.first_fetched_at
        else asked_at
    end;
    if rows_saved_up is not null then
        lane_cursor.rate_from := asked_at - make_interval(
            secs => ((rows_saved_up - found_messages.row_count) * subscription.lanes / subscription.rows_per_second)::double precision
        );
    end if;
    lane_cursor.fetch_count := case
        when lane_cursor.suspect_place > lane_cursor.done_place and lane_cursor.suspect_rows > 1 then subscription.crash_limit
        else 1
    end;
    return lane_cursor;
end
$$;
