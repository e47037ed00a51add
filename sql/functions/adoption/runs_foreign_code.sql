-- Whether JSON of whole rows of a table may run code of somebody who has not the rights of the owner
-- of this store: casts to JSON, checks of domains. What an adoption runs, it runs with these rights.
create or replace function relaybox_internal.runs_foreign_code(relation regclass) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select exists (
    select
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    join pg_roles o on o.oid = t.typowner
    cross join pg_namespace n
    where
        a.attrelid = relation and a.attnum > 0 and not a.attisdropped
        and n.nspname = 'relaybox_internal'
        and not (t.typnamespace = 'pg_catalog'::regnamespace or t.typtype = 'b' and t.typelem = 0 and o.rolsuper)
        and not pg_has_role(t.typowner, n.nspowner, 'usage')
)
$$;
