-- One row: what the role of this session sees and acts on in this store. In functions that run with
-- their owner's rights the setting `role` names the caller, unless it is the session's own role. The
-- setting is a text that follows no rename: caller is null if the login may not set this role now. Who
-- may write the table of subscriptions (the owner, drivers) acts on every subscription; who may read
-- it (readers, viewers too) sees every one; who acts on every one needs no approval to have messages
-- given again. Where nothing is bound or approved no right is looked up. No table of
-- the catalog: an init that locks a view locks all that the view reads. To see every one, current_user
-- must be able to as well. In functions with the owner's rights that is the owner. Who reads a view is
-- itself: below ANALYZE, and in functions of others, the session's role may be another one.
create or replace view relaybox_internal.acting_role as
with session as (
    select
        case
            when current_setting('role') = 'none' then session_user
            when pg_has_role(
                session_user, to_regrole(quote_ident(current_setting('role')))::oid, 'member'
            ) then current_setting('role')::name
        end as caller
)

select
    session.caller,
    not s.bind_subscriptions or coalesce(has_table_privilege(
        session.caller, 'relaybox_internal.subscription'::regclass, 'insert'
    ), false) as acts_on_all,
    not s.bind_subscriptions or coalesce(has_table_privilege(
        session.caller, 'relaybox_internal.subscription'::regclass, 'select'
    ) and has_table_privilege(
        current_user, 'relaybox_internal.subscription'::regclass, 'select'
    ), false) as sees_all,
    s.require_approval and not coalesce(has_table_privilege(
        session.caller, 'relaybox_internal.subscription'::regclass, 'insert'
    ), false) as needs_approval
from relaybox_internal.store s
cross join session;

comment on view relaybox_internal.acting_role is
'Whether the role of this session sees, and acts on, every subscription of this store, and whether '
'it needs an approval to have messages given again.';
