-- Lets a database role, and roles that inherit it, use a subscription and its second cursors. The
-- subscription need not exist yet. It has an effect only if the store asks for bindings
-- (bind_subscriptions). Returns whether the binding is new. For the owner. Raises RB036 (no name of a
-- subscription, the name of a second cursor, or no such role).
create or replace function relaybox_internal.bind_subscription(
    subscription_ text, role_name_ name
)
returns boolean
language plpgsql volatile
as $$
begin
    if subscription_ ~ '^[a-z0-9_.-]{1,60}$' is not true then
        raise exception using errcode = 'RB036',
            message = format(
                'the name %L of a subscription must be 1 to 60 of a-z 0-9 _ . -',
                left(subscription_, 70)
            );
    end if;
    if relaybox_internal.bound_names(subscription_) <> array[subscription_] then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s is a second cursor: it belongs to those who may use the '
                'subscription that it replays', subscription_
            ),
            hint = 'Bind that subscription. Its second cursors need no binding.';
    end if;
    if not exists (select from pg_roles r where r.rolname = role_name_) then
        raise exception using errcode = 'RB036',
            message = format('there is no role %s in this cluster', role_name_),
            hint = format(
                'Create it first: create role %I login in role relaybox_consumer', role_name_
            );
    end if;
    insert into relaybox_internal.subscription_role (subscription, role_name)
    values (subscription_, role_name_)
    on conflict do nothing;
    return found;
end
$$;
