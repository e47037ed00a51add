-- Takes back grant_topic(), also for a role that does not exist any more. Returns whether there was
-- such a grant. For the owner.
create or replace function relaybox_internal.revoke_topic(topic_ text, role_name_ name)
returns boolean
language plpgsql volatile
as $$
begin
    delete from relaybox_internal.topic_role g
    where g.topic = topic_ and g.role_name = role_name_;
    return found;
end
$$;
