-- The streams that the role of this session is an operator of: the role was bound to the stream, and
-- inherits relaybox_operator. bound_at: since when. current_user is asked too, as in allowed_topics.
-- No function of this library, and no table of the catalog, as in acting_role.
create or replace view relaybox_internal.allowed_streams as
select s.stream_id, s.stream, min(b.bound_at) as bound_at
from relaybox_internal.stream_role b
join relaybox_internal.stream s on s.stream = b.stream
cross join relaybox_internal.acting_role scope
where
    -- null for a role that is gone
    pg_has_role(scope.caller, to_regrole('relaybox_operator')::oid, 'usage')
    and pg_has_role(scope.caller, to_regrole(quote_ident(b.role_name))::oid, 'usage')
    and (
        pg_has_role(current_user, to_regrole(quote_ident(b.role_name))::oid, 'usage')
        or has_table_privilege(current_user, 'relaybox_internal.subscription'::regclass, 'select')
    )
group by s.stream_id, s.stream;

comment on view relaybox_internal.allowed_streams is
'The streams that the role of this session is an operator of.';
