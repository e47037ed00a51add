-- The subscriptions that the role of this session is bound to, second cursors included, and those
-- that ended while it was bound; and all those of streams that it is an operator of, whenever they
-- ended. current_user is asked too, as in acting_role. No function of this library: a view calls
-- functions with the rights of who reads it.
create or replace view relaybox_internal.bound_subscriptions as
select n.subscription_id, n.subscription
from relaybox_internal.subscription n
left join relaybox_internal.subscription parent on parent.subscription_id = n.replay_of
where exists (
    select from relaybox_internal.acting_role scope
    join relaybox_internal.subscription_role b
        on b.subscription in (n.subscription, parent.subscription)
    where (n.ended_at is null or b.bound_at <= n.ended_at)
    -- null for a role that is gone
    and pg_has_role(scope.caller, to_regrole(quote_ident(b.role_name))::oid, 'usage')
    and (
        pg_has_role(current_user, to_regrole(quote_ident(b.role_name))::oid, 'usage')
        or has_table_privilege(current_user, 'relaybox_internal.subscription'::regclass, 'select')
    )
)
or n.stream_id in (select o.stream_id from relaybox_internal.allowed_streams o);

comment on view relaybox_internal.bound_subscriptions is
'The subscriptions that the role of this session is bound to, or is an operator of.';
