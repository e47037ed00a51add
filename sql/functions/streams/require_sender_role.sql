-- Raises RB023 if this store binds senders to roles and the caller may not send as the sender.
-- Repeats the policy of the outbox for functions that run with their owner's rights.
create or replace function relaybox_internal.require_sender_role(sender_ text) returns void
language plpgsql stable
as $$
declare
    caller name;
    owner oid := (
        select o.relowner from pg_class o
        where o.oid = 'relaybox.outbox'::regclass and o.relrowsecurity
    );
begin
    if owner is null then
        return;
    end if;
    perform relaybox_internal.refuse_maintenance();
    caller := (select c.caller from relaybox_internal.acting_role c);
    if caller is null then
        perform relaybox_internal.refuse_stale_role('RB023');
    end if;
    if not pg_has_role(caller, owner, 'usage') and not exists (
        select from relaybox.sender_role b
        join pg_roles r on r.rolname = b.role_name
        where b.sender = sender_ and pg_has_role(caller, r.oid, 'usage')
    ) then
        raise exception using errcode = 'RB023',
            message = format('role %s may not speak for sender %s', caller, sender_),
            hint = format(
                'This store binds senders to roles. '
                'An administrator runs: relaybox senders bind %s',
                relaybox_internal.shell_words('STORE', sender_, caller)
            );
    end if;
end
$$;
