-- One row: what the role of this session sees and acts on in this store. In functions that run with
-- their owner's rights the setting `role` names the caller, unless it is the session's own role. Who
-- may write the table of subscriptions (the owner, drivers) acts on every subscription; who may read
-- it (readers, viewers too) sees every one; who acts on every one needs no approval to have messages
-- given again. Where nothing is bound or approved no right is looked up. No table of
-- the catalog: an init that locks a view locks all that the view reads.
create or replace view relaybox_internal.acting_role as
with session as (
    select coalesce(nullif(current_setting('role'), 'none'), session_user)::name as caller
)

select
    session.caller,
    not s.bind_subscriptions or has_table_privilege(
        session.caller, 'relaybox_internal.subscription'::regclass, 'insert'
    ) as acts_on_all,
    not s.bind_subscriptions or has_table_privilege(
        session.caller, 'relaybox_internal.subscription'::regclass, 'select'
    ) as sees_all,
    s.require_approval and not has_table_privilege(
        session.caller, 'relaybox_internal.subscription'::regclass, 'insert'
    ) as needs_approval
from relaybox_internal.store s
cross join session;

comment on view relaybox_internal.acting_role is
'Whether the role of this session sees, and acts on, every subscription of this store, and whether '
'it needs an approval to have messages given again.';
