-- Dead letters of some lanes changed: their cursors move, so that no transaction with an older
-- snapshot goes on from what it saw (40001). A fetch of redriven letters ends: others stand among
-- them now, which it did not give. Caller: holds these lanes.
create or replace function relaybox_internal.update_dead_letter_lanes(subscription_ relaybox_internal.subscription, lanes_ integer[]) returns void
language plpgsql volatile
as $$
declare
    lane_ integer;
    cursor_ relaybox_internal.cursor;
begin
    foreach lane_ in array coalesce(lanes_, '{}') loop
        cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
        if cursor_.redrive_stream_position is not null then
            cursor_.token := null;
            cursor_.fetched_in := null;
        end if;
        perform relaybox_internal.move_cursor(cursor_);
    end loop;
end
$$;
