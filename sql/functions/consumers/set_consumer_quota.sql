-- Sets how many subscriptions and lanes a role may have in this store; without a role: every role that has no quota of its own. Null: for
-- a role, as for every other role; for every role, unchanged. What a role has already stays. For the owner of the store. Raises RB036.
create or replace function relaybox.set_consumer_quota(subscriptions_ integer, lanes_ integer, role_name_ name default null) returns void
language plpgsql volatile
as $$
begin
    if subscriptions_ < 0 or lanes_ < 0 then
        raise exception using errcode = 'RB036',
            message = format('a quota of %s subscriptions and %s lanes is refused: both must be 0 or more', subscriptions_, lanes_);
    end if;
    if role_name_ is null then
        update relaybox.store s set
            subscriptions_per_role = coalesce(subscriptions_, s.subscriptions_per_role), lanes_per_role = coalesce(lanes_, s.lanes_per_role);
        return;
    end if;
    if not exists (select from pg_roles r where r.rolname = role_name_) then
        raise exception using errcode = 'RB036', message = format('there is no role %s in this server', role_name_),
            hint = 'Give the name of the login as which the consumer connects.';
    end if;
    insert into relaybox.consumer_quota (role_name, subscriptions, lanes) values (role_name_, subscriptions_, lanes_)
    on conflict on constraint consumer_quota_pkey do update set subscriptions = excluded.subscriptions, lanes = excluded.lanes;
end
$$;
