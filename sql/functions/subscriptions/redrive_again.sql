-- A locked lane's cursor when redriven dead letters are fetched again: only the first one if their
-- worker died crash_limit times; nothing if that one was alone: it is set aside again.
create or replace function relaybox_internal.redrive_again(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription, worker text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    redriven_count bigint;
    first_stream_position bigint;
begin
    select count(*), min(d.stream_position) into redriven_count, first_stream_position
    from relaybox_internal.dead_letter d
    where d.subscription_id = subscription.subscription_id and d.lane = lane_cursor.lane
        and d.state = 'redriving' and d.stream_position <= lane_cursor.redrive_stream_position;
    if redriven_count > 1 and lane_cursor.fetch_count >= subscription.crash_limit then
        lane_cursor.redrive_stream_position := first_stream_position;
        lane_cursor.fetch_count := 0;
    elsif redriven_count = 1 and lane_cursor.fetch_count >= subscription.crash_limit then
        perform relaybox_internal.set_aside_killer(
            lane_cursor, subscription, first_stream_position, worker
        );
        lane_cursor.redrive_stream_position := null;
    elsif redriven_count = 0 then
        lane_cursor.redrive_stream_position := null;
    end if;
    return lane_cursor;
end
$$;
