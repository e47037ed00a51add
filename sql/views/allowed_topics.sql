-- The topics whose messages the role of this session may read in this store; *: every topic. Who may
-- read the table of subscriptions (the owner, drivers, readers, viewers) is asked for no grant.
-- Where no topic is bound, no right is looked up and no grant is read: who asks for * stops at the
-- first row. No function of this library, and no table of the catalog, as in acting_role.
-- current_user is asked too. In functions with the owner's rights that is the owner. Who reads a view
-- is itself: below ANALYZE, and in functions of others, the session's role may be another one.
create or replace view relaybox_internal.allowed_topics as
select '*' as topic
from relaybox_internal.store s
cross join relaybox_internal.acting_role scope
where
    not s.bind_topics
    or coalesce(has_table_privilege(scope.caller, 'relaybox_internal.subscription'::regclass, 'select'), false)
    and has_table_privilege(current_user, 'relaybox_internal.subscription'::regclass, 'select')
union all
select g.topic
from relaybox_internal.topic_role g
cross join relaybox_internal.acting_role scope
where
    -- null for a role that is gone
    pg_has_role(scope.caller, to_regrole(quote_ident(g.role_name))::oid, 'usage')
    and (
        pg_has_role(current_user, to_regrole(quote_ident(g.role_name))::oid, 'usage')
        or has_table_privilege(current_user, 'relaybox_internal.subscription'::regclass, 'select')
    );

comment on view relaybox_internal.allowed_topics is
'The topics whose messages the role of this session may read; *: every topic.';
