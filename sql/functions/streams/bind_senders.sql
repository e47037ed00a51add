-- Sets whether a role may insert only messages of the senders that it is bound to. Returns whether
-- that changed; only then the outbox is locked, for a moment. The owner of the outbox and superusers
-- are never restricted, and drivers, readers and viewers read sent_rows. Called by init.
create or replace function relaybox_internal.bind_senders(asked boolean) returns boolean
language plpgsql volatile
as $$
begin
    if asked = (select o.relrowsecurity from pg_class o where o.oid = 'relaybox.outbox'::regclass)
    then
        return false;
    end if;
    if asked then
        -- plain tables, no function of this library: upgrades drop and make its functions
        create policy role_is_bound_to_sender on relaybox.outbox for insert with check (exists (
            select from relaybox.sender_role b
            join pg_catalog.pg_roles r on r.rolname = b.role_name
            where b.sender = outbox.sender and pg_has_role(current_user, r.oid, 'usage')
        ));
        -- for "insert ... returning message_id"; grants of columns apply as without policies
        create policy sent_rows_can_be_returned on relaybox.outbox for select using (true);
        alter table relaybox.outbox enable row level security;
    else
        alter table relaybox.outbox disable row level security;
        drop policy role_is_bound_to_sender on relaybox.outbox;
        drop policy sent_rows_can_be_returned on relaybox.outbox;
    end if;
    return true;
end
$$;
