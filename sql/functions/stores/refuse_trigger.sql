-- Raises 42501 in a trigger, of whatever table. A foreign key of another role's table that cascades
-- runs the triggers of that table in this session, whose rights a function with its owner's rights
-- would take for the caller's. Called where a right depends on the role of the session.
create or replace function relaybox_internal.refuse_trigger() returns void
language plpgsql stable
as $$
begin
    if pg_trigger_depth() = 0 then
        return;
    end if;
    raise exception using errcode = '42501',
        message = 'this function is not for triggers where the store asks for the role of the session',
        hint = 'A foreign key can run the trigger of another role in this session. Call the function '
            'in the application, in the same transaction.';
end
$$;
