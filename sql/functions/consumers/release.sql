-- Gives a lane back before its lease ends; what was fetched and not acknowledged comes again, to whoever asks. A worker that stops calls it.
-- Returns whether the worker had the lane. Raises RB031.
create or replace function relaybox.release(subscription text, lane integer default 1, worker text default null) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named("release".subscription);
    c relaybox.cursor := relaybox.lock_lane(known, "release".lane);
begin
    if c.worker is distinct from relaybox.worker_name("release".worker) then
        return false;
    end if;
    c.worker := null;
    c.leased_until := null;
    c.fetch_count := greatest(0, c.fetch_count - 1);
    perform relaybox.move_cursor(c);
    return true;
end
$$;
