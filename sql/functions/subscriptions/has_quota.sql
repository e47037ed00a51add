-- Whether the subscriptions of a login are limited in this store. Not those of the owner and of
-- superusers; and not those of drivers: they open second cursors for people who ask for a replay in
-- Airflow, and none reads them as a consumer.
create or replace function relaybox_internal.has_quota(login name) returns boolean
language sql stable
as $$
    select not pg_has_role(login, c.relowner, 'usage') and not exists (
        select from pg_roles r
        where r.rolname = 'relaybox_driver' and pg_has_role(login, r.oid, 'member')
    )
    from pg_class c where c.oid = 'relaybox_internal.subscription'::regclass
$$;
