-- Gives a lane back before its lease ends. Locks the lane.
create or replace function relaybox.release(subscription text, token text default null)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named("release".subscription);
    cursor_ relaybox_internal.cursor;
begin
    begin
        cursor_ := relaybox_internal.lock_fetch(
            subscription_, "release".token,
            'select relaybox.release(''SUBSCRIPTION'', ''TOKEN'').'
        );
    exception when sqlstate 'RB035' then
        return false;
    end;
    if cursor_.worker is null then
        return false;
    end if;
    cursor_.worker := null;
    cursor_.leased_until := null;
    cursor_.fetch_count := greatest(0, cursor_.fetch_count - 1);
    perform relaybox_internal.move_cursor(cursor_);
    perform relaybox_internal.wake_consumers(subscription_.stream_id);
    return true;
end
$$;

comment on function relaybox.release(text, text) is
'Gives a lane back before its lease ends, for a worker that stops. What was not acknowledged comes
again at once, to any worker.
`subscription`: its name. `token`: as fetch returned it; null only in the transaction of the fetch.
Returns true if that fetch still had the lane.
Errors: RB031 (not subscribed), RB033 (no token), RB040 (bound to other roles).';
