-- Makes a database role, and roles that inherit it, operators of a stream: of all its subscriptions,
-- also later ones. The stream need not exist yet. It has an effect for members of relaybox_operator,
-- and only if the store asks for bindings (bind_subscriptions). Returns whether the binding is new.
-- For the owner. Raises RB036 (no name of a stream, or no such role).
create or replace function relaybox_internal.bind_operator(stream_ text, role_name_ name)
returns boolean
language plpgsql volatile
as $$
begin
    if stream_ ~ '^[a-z][a-z0-9_-]{0,29}$' is not true then
        raise exception using errcode = 'RB036',
            message = format(
                'the name %L of a stream must be 1 to 30 of a-z 0-9 _ -, the first a letter',
                left(stream_, 70)
            );
    end if;
    if not exists (select from pg_roles r where r.rolname = role_name_) then
        raise exception using errcode = 'RB036',
            message = format('there is no role %s in this cluster', role_name_),
            hint = format(
                'Create it first: create role %I login in role relaybox_operator, '
                'relaybox_consumer', role_name_
            );
    end if;
    insert into relaybox_internal.stream_role (stream, role_name)
    values (stream_, role_name_)
    on conflict do nothing;
    return found;
end
$$;
