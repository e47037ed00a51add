-- Sets how many subscriptions, lanes and topics of its own a role may have in this store; without a
-- role: every role that has no quota of its own. Null: for a role, as for every other role; for
-- every role, unchanged. What a role has already stays. For the owner of the store. Raises RB036.
create or replace function relaybox.set_consumer_quota(
    subscriptions integer, lanes integer, role_name name default null, topics integer default null
)
returns void
language plpgsql volatile
as $$
begin
    if least(set_consumer_quota.subscriptions, set_consumer_quota.lanes, set_consumer_quota.topics) < 0 then
        raise exception using errcode = 'RB036',
            message = format(
                'a quota of %s subscriptions, %s lanes and %s topics is refused: each must be 0 or more, or null',
                coalesce(set_consumer_quota.subscriptions::text, 'null'), coalesce(set_consumer_quota.lanes::text, 'null'),
                coalesce(set_consumer_quota.topics::text, 'null')
            );
    end if;
    if set_consumer_quota.role_name is null then
        update relaybox_internal.store s set
            subscriptions_per_role = coalesce(set_consumer_quota.subscriptions, s.subscriptions_per_role),
            lanes_per_role = coalesce(set_consumer_quota.lanes, s.lanes_per_role),
            topics_per_role = coalesce(set_consumer_quota.topics, s.topics_per_role);
        return;
    end if;
    if not exists (select from pg_roles r where r.rolname = set_consumer_quota.role_name) then
        raise exception using errcode = 'RB036', message = format('there is no role %s in this server', set_consumer_quota.role_name),
            hint = 'Give the name of the login as which the consumer connects.';
    end if;
    insert into relaybox_internal.consumer_quota (role_name, subscriptions, lanes, topics)
    values (set_consumer_quota.role_name, set_consumer_quota.subscriptions, set_consumer_quota.lanes, set_consumer_quota.topics)
    on conflict on constraint consumer_quota_pkey do update
    set subscriptions = excluded.subscriptions, lanes = excluded.lanes, topics = excluded.topics;
end
$$;

comment on function relaybox.set_consumer_quota(integer, integer, name, integer) is
'Sets how much a login may have in this store. For the owner of the store. What a login has already stays.
`subscriptions`, `lanes`, `topics` (that it asked for): greatest numbers; null: for a login, as for every login; for every login, as before.
`role_name`: the login; null: every login that has no quota of its own.
Errors: RB036 (a negative number, or no such role).';
