-- Acknowledges a lane's fetched messages up to a place, in the caller's transaction: with the effects of its work, or not at all.
-- Returns the place that the lane is done through. Raises RB031 not subscribed, RB033 what was not fetched, RB035 the lane was lost.
create or replace function relaybox.ack(subscription text, place bigint, lane integer default 1, worker text default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(ack.subscription);
    c relaybox.cursor;
begin
    c := relaybox.acknowledged(relaybox.lock_lane(known, ack.lane), known, ack.place, relaybox.worker_name(ack.worker));
    perform relaybox.move_cursor(c);
    return c.done_place;
end
$$;
