-- Puts each lane of a subscription that is done with a stream position back before it. Returns the
-- last stream position that any lane had acknowledged. Caller: holds the subscription. Locks the
-- lanes.
create or replace function relaybox_internal.rewind_lanes(
    subscription_ relaybox_internal.subscription, first_stream_position bigint
)
returns bigint
language plpgsql volatile
as $$
declare
    lane_cursor relaybox_internal.cursor;
    done_through bigint;
begin
    for lane_ in 1..subscription_.lanes loop
        lane_cursor := relaybox_internal.lock_lane(subscription_, lane_);
        done_through := greatest(done_through, lane_cursor.done_stream_position);
        if lane_cursor.done_stream_position >= first_stream_position then
            perform relaybox_internal.move_cursor(relaybox_internal.begin_pass(
                lane_cursor, first_stream_position,
                greatest(lane_cursor.replay_stream_position, lane_cursor.done_stream_position)
            ));
        end if;
    end loop;
    return done_through;
end
$$;
