-- Forgets that the endpoint of a subscription fails: it took a message, or a person has repaired it.
-- Locks the row of this subscription. Wakes workers that listen.
create or replace function relaybox.clear_endpoint_failure(subscription text)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        clear_endpoint_failure.subscription, is_operating => true
    );
begin
    delete from relaybox_internal.endpoint_failure f
    where f.subscription_id = subscription_.subscription_id;
    if not found then
        return false;
    end if;
    perform relaybox_internal.wake_consumers(subscription_.stream_id);
    return true;
end
$$;

comment on function relaybox.clear_endpoint_failure(text) is
'Forgets that the endpoint of a subscription fails: a message was delivered, or a person has repaired
the endpoint. The next attempt is made at once.
`subscription`: its name.
Returns true if the endpoint was failing.
Errors: RB031 (not subscribed), RB040 (bound to other roles).';
