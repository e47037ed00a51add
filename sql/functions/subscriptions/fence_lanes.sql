-- Locks the lanes that have not done all stream positions of a log through a log position, and
-- gives each a newer cursor with the same values. A worker that fetches afterwards sees what
-- happens in this transaction; with an older snapshot it can't move the cursor (40001). Without the
-- fence it could find no rows in a segment that is going, and move on behind them. Waits for
-- fetches that hold a lane.
create or replace function relaybox_internal.fence_lanes(
    log_id_ integer, through_position bigint
)
returns void
language plpgsql volatile
as $$
declare
    stream_id_ integer := (
        select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_
    );
    last_stream_position_ bigint := relaybox_internal.last_stream_position_through(
        stream_id_, log_id_, through_position
    );
    behind relaybox_internal.lane;
    cursor_ relaybox_internal.cursor;
begin
    for behind in
        select k.subscription_id, k.lane
        from relaybox_internal.lane_cursors k
        join relaybox_internal.subscription n on n.subscription_id = k.subscription_id
        where n.stream_id = stream_id_ and n.ended_at is null
            and k.done_stream_position < last_stream_position_
        order by k.subscription_id, k.lane
    loop
        perform from relaybox_internal.lane l
        where l.subscription_id = behind.subscription_id and l.lane = behind.lane for update;
        -- a later statement than the lock
        select * into cursor_ from relaybox_internal.lane_cursors k
        where k.subscription_id = behind.subscription_id and k.lane = behind.lane;
        if found then
            cursor_.version := cursor_.version + 1; -- moved_at stays: the lane did not move
            insert into relaybox_internal.cursor select cursor_.*;
        end if;
    end loop;
end
$$;
