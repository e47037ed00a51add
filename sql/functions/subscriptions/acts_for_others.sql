-- Whether a login may say for whom it acts: a member of relaybox_operator or relaybox_driver, or of
-- the role that owns the store's tables.
create or replace function relaybox_internal.acts_for_others(login name) returns boolean
language sql stable
as $$
    select exists (
        select from pg_roles r
        where pg_has_role(login, r.oid, 'member') and (
            r.rolname in ('relaybox_operator', 'relaybox_driver')
            or r.oid = (
                select c.relowner from pg_class c
                where c.oid = 'relaybox_internal.subscription'::regclass
            )
        )
    )
$$;
