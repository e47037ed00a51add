-- Takes back bind_operator(), also for a role or a stream that does not exist any more. Returns
-- whether there was a binding. For the owner.
create or replace function relaybox_internal.unbind_operator(stream_ text, role_name_ name)
returns boolean
language plpgsql volatile
as $$
begin
    delete from relaybox_internal.stream_role b
    where b.stream = stream_ and b.role_name = role_name_;
    return found;
end
$$;
