-- Moves the cursors of lanes whose dead letters changed, so that no transaction with an older
-- snapshot acts on the letters that it saw (40001). Ends a fetch of redriven letters: others may be
-- among them now that the fetch did not return. Caller: holds these lanes.
create or replace function relaybox_internal.update_dead_letter_lanes(
    subscription_ relaybox_internal.subscription, lanes_ integer[]
)
returns void
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
