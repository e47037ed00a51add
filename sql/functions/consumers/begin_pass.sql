-- A locked lane's cursor put before a range that it reads again: letters of the range that an earlier pass gave ahead of the cursor are
-- given again too. Writes these letters, not the cursor itself. Caller: holds the lane.
create or replace function relaybox.begin_pass(c relaybox.cursor, first_place bigint, last_place bigint) returns relaybox.cursor
language plpgsql volatile
as $$
begin
    update relaybox.dead_letter d set given_ahead = false
    where d.subscription_id = c.subscription_id and d.lane = c.lane and d.given_ahead
        and d.place between begin_pass.first_place and begin_pass.last_place;
    c := relaybox.cursor_at(c, begin_pass.first_place - 1);
    c.replay_place := begin_pass.last_place;
    c.rate_from := clock_timestamp();
    return c;
end
$$;
