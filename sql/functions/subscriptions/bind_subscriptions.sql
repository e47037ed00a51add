-- Sets whether a role may use only subscriptions that it is bound to. Returns whether that changed.
-- Called by init.
create or replace function relaybox_internal.bind_subscriptions(asked boolean) returns boolean
language plpgsql volatile
as $$
begin
    update relaybox_internal.store s set bind_subscriptions = asked
    where s.bind_subscriptions <> asked;
    return found;
end
$$;
