-- Lets a database role, and roles that inherit it, send as a sender. It has an effect only if the
-- store asks for bindings (bind_senders). Returns whether the binding is new. For administrators.
-- Raises RB021 (no name of a sender), 42704 (no such role).
create or replace function relaybox_internal.bind_sender(sender_ text, role_name_ name)
returns boolean
language plpgsql volatile
as $$
begin
    perform relaybox_internal.require_sender_kind(sender_, 'gapless');
    if not exists (select from pg_roles r where r.rolname = role_name_) then
        raise exception using errcode = 'undefined_object',
            message = format('there is no role %s in this cluster', role_name_),
            hint = format(
                'Create it first: create role %I login in role relaybox_producer', role_name_
            );
    end if;
    insert into relaybox.sender_role (sender, role_name)
    values (sender_, role_name_)
    on conflict do nothing;
    return found;
end
$$;
