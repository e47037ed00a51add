-- The subscriptions that the role of this session is bound to, with their second cursors, whatever
-- the names of these are, and those that ended while it was bound; and all those of streams that it is
-- an operator of, whenever they ended. One may be in it twice. Each part begins at what the role is
-- bound to, and finds subscriptions by an index: ended ones stay for good. current_user is asked too,
-- as in acting_role. No function of this library: a view calls functions with the rights of who reads
-- it.
create or replace view relaybox_internal.bound_subscriptions as
with bound as (
    select b.subscription, b.bound_at
    from relaybox_internal.subscription_role b
    cross join relaybox_internal.acting_role scope
    where
        -- null for a role that is gone
        pg_has_role(scope.caller, to_regrole(quote_ident(b.role_name))::oid, 'usage')
        and (
            pg_has_role(current_user, to_regrole(quote_ident(b.role_name))::oid, 'usage')
            or has_table_privilege(current_user, 'relaybox_internal.subscription'::regclass, 'select')
        )
)

select n.subscription_id, n.subscription, n.ended_at
from bound b
join relaybox_internal.subscription n on n.subscription = b.subscription
where n.replay_of is null and (n.ended_at is null or b.bound_at <= n.ended_at)
union all
select n.subscription_id, n.subscription, n.ended_at
from bound b
join relaybox_internal.subscription parent on parent.subscription = b.subscription
join relaybox_internal.subscription n on n.replay_of = parent.subscription_id
where n.ended_at is null or b.bound_at <= n.ended_at
union all
select n.subscription_id, n.subscription, n.ended_at
from relaybox_internal.allowed_streams o
join relaybox_internal.subscription n on n.stream_id = o.stream_id;

comment on view relaybox_internal.bound_subscriptions is
'The subscriptions that the role of this session is bound to, or is an operator of.';
