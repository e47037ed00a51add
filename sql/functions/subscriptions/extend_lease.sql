-- Gives a worker more time for what it fetched: lease_seconds from now on. Locks the lane.
create or replace function relaybox.extend_lease(subscription text, token text)
returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(extend_lease.subscription);
    cursor_ relaybox_internal.cursor := relaybox_internal.lock_fetch(
        subscription_, coalesce(extend_lease.token, ''),
        'select relaybox.extend_lease(''SUBSCRIPTION'', ''TOKEN'').'
    );
begin
    if cursor_.worker is null then
        perform relaybox_internal.refuse_token(cursor_, subscription_, extend_lease.token);
    end if;
    cursor_.leased_until
    := clock_timestamp() + make_interval(secs => subscription_.lease_seconds);
    perform relaybox_internal.move_cursor(cursor_);
    return cursor_.leased_until;
end
$$;

comment on function relaybox.extend_lease(text, text) is
'Extends the lease of a fetch by lease_seconds from now, for work that takes longer. Call it in a
transaction of its own, also after the lease has ended, as long as no other worker has the lane.
`subscription`: its name. `token`: as fetch returned it.
Returns when the lease ends.
Errors: RB031 (not subscribed), RB033 (no token), RB035 (fetched again, acknowledged or given back since),
    RB040 (bound to other roles).';
