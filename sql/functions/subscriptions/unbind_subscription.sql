-- Takes back bind_subscription(), also for a role that does not exist any more. Returns whether there
-- was a binding. For the owner.
create or replace function relaybox_internal.unbind_subscription(
    subscription_ text, role_name_ name
)
returns boolean
language plpgsql volatile
as $$
begin
    delete from relaybox_internal.subscription_role b
    where b.subscription = subscription_ and b.role_name = role_name_;
    return found;
end
$$;
