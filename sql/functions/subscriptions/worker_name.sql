-- The name of the worker that fetches: as the caller gives it, else the pid of this session, which
-- no other session has now. Raises RB036 for a name that is empty or longer than 300 characters.
create or replace function relaybox_internal.worker_name(given text) returns text
language plpgsql stable
as $$
begin
    if given = '' then
        raise exception using errcode = 'RB036', message = 'the name of the worker is empty',
            hint = 'Give each process a name of its own, '
                || 'or leave it out: then the worker is the session.';
    end if;
    perform relaybox_internal.require_length('the name of the worker', given, 300);
    return coalesce(given, 'pid ' || pg_backend_pid());
end
$$;
