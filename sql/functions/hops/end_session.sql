-- Ends a session that trusted_sessions() gave, if it is still that session: another one may have its
-- process id since, or a pooler may have lent it to another client, who named it anew. Never this
-- session itself. Returns whether it was ended.
create or replace function relaybox_internal.end_session(
    pid_ integer, started_at_ timestamptz, name_ text
)
returns boolean
language plpgsql volatile
as $$
begin
    perform from relaybox_internal.trusted_sessions() t
    where t.pid = pid_ and t.started_at = started_at_ and t.name = name_ and t.may_end
        and t.pid <> pg_backend_pid();
    return found and pg_terminate_backend(pid_);
end
$$;
