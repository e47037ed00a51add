-- Takes back bind_sender(), also for a role that does not exist any more. Returns whether there was
-- a binding. For administrators.
create or replace function relaybox_internal.unbind_sender(sender_ text, role_name_ name)
returns boolean
language plpgsql volatile
as $$
begin
    delete from relaybox.sender_role b where b.sender = sender_ and b.role_name = role_name_;
    return found;
end
$$;
