-- Raises 42501 where the code that runs may be another role's than the session's: below a maintenance
-- command; and in a trigger, if this store binds subscriptions or topics to roles, or asks for
-- approvals.
create or replace function relaybox_internal.refuse_borrowed_session() returns void
language plpgsql volatile
as $$
begin
    perform relaybox_internal.refuse_maintenance();
    if pg_trigger_depth() > 0 then
        perform relaybox_internal.refuse_trigger() from relaybox_internal.store s
        where s.bind_subscriptions or s.bind_topics or s.require_approval;
    end if;
end
$$;
