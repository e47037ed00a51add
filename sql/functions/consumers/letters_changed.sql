-- Dead letters of some lanes changed: their cursors move, so that no transaction with an older snapshot goes on from what it saw (40001).
-- A fetch of redriven letters ends: others stand among them now, which it did not give. Caller: holds these lanes.
create or replace function relaybox.letters_changed(known relaybox.subscription, lanes_ integer[]) returns void
language plpgsql volatile
as $$
declare
    lane_ integer;
    c relaybox.cursor;
begin
    foreach lane_ in array coalesce(lanes_, '{}') loop
        c := relaybox.lock_lane(known, lane_);
        if c.redrive_place is not null then
            c.token := null;
            c.fetched_in := null;
        end if;
        perform relaybox.move_cursor(c);
    end loop;
end
$$;
