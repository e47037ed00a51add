-- Locks the lanes that have not done all stream positions of a log through a position, and gives each a newer cursor that says the same. Who fetches
-- from one of them afterwards sees what happens in this transaction; with an older snapshot her cursor can't be moved (40001).
-- Without it she might find no rows in a segment that is going, and go on behind them. Waits for whoever fetches at this moment.
create or replace function relaybox_internal.fence_lanes(log_id_ integer, through_position bigint) returns void
language plpgsql volatile
as $$
declare
    here relaybox_internal.stream_log;
    last_stream_position_ bigint;
    behind relaybox_internal.lane;
    cursor_ relaybox_internal.cursor;
begin
    select * into here from relaybox_internal.stream_log l where l.log_id = log_id_;
    last_stream_position_ := relaybox_internal.last_stream_position_through(here.stream_id, log_id_, through_position);
    for behind in
        select k.subscription_id, k.lane
        from relaybox_internal.lane_cursors k join relaybox_internal.subscription n on n.subscription_id = k.subscription_id
        where n.stream_id = here.stream_id and n.ended_at is null and k.done_stream_position < last_stream_position_
        order by k.subscription_id, k.lane
    loop
        perform from relaybox_internal.lane l where l.subscription_id = behind.subscription_id and l.lane = behind.lane for update;
        -- a later statement than the lock
        select * into cursor_ from relaybox_internal.lane_cursors k where k.subscription_id = behind.subscription_id and k.lane = behind.lane;
        if found then
            cursor_.version := cursor_.version + 1; -- moved_at stays: standing still is what it does
            insert into relaybox_internal.cursor select cursor_.*;
        end if;
    end loop;
end
$$;
