-- A locked lane's cursor after its fetch killed its worker crash_limit times: a tenth of the
-- messages is fetched from now on, up to the last one of that fetch. A message that was alone is
-- set aside.
create or replace function relaybox_internal.shrink_fetch(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription, worker text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    fetched_count bigint;
    last_stream_position bigint;
begin
    select s.row_count, s.through_stream_position into fetched_count, last_stream_position
    from relaybox_internal.scan_lane(
        subscription, lane_cursor.lane, lane_cursor.done_stream_position,
        lane_cursor.fetched_stream_position,
        lane_cursor.fetched_stream_position - lane_cursor.done_stream_position
    ) s;
    if fetched_count > 1 then
        lane_cursor.suspect_stream_position := greatest(
            lane_cursor.suspect_stream_position, lane_cursor.fetched_stream_position
        );
        lane_cursor.suspect_rows := greatest(1, fetched_count / 10);
        select s.through_stream_position into lane_cursor.fetched_stream_position
        from relaybox_internal.scan_lane(
            subscription, lane_cursor.lane, lane_cursor.done_stream_position,
            lane_cursor.fetched_stream_position, lane_cursor.suspect_rows
        ) s;
        -- refetch() adds 1: a message alone gets all its fetches anew, a part shrinks the next time
        lane_cursor.fetch_count := case
            when lane_cursor.suspect_rows = 1 then 0 else subscription.crash_limit - 1
        end;
    elsif fetched_count = 1 then
        perform relaybox_internal.set_aside_killer(
            lane_cursor, subscription, last_stream_position, worker
        );
    end if;
    return lane_cursor;
end
$$;
