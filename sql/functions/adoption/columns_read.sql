-- The columns of an adopted table that its function message_of_row_N reads, by their names of now:
-- Postgres knows them. All columns if the map sends the whole row. Null: the function is missing.
create or replace function relaybox_internal.columns_read(adoption_id_ integer) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select coalesce(array_agg(a.attname::text order by a.attnum) filter (
    where exists (
        select from relaybox_internal.adopted_table t
        where t.adoption_id = adoption_id_ and t.mapping -> 'payload' ? 'row'
    )
    or exists (
        select from pg_depend d
        where
            d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
            and d.refobjid = a.attrelid and d.refobjsubid = a.attnum
    )
), '{}')
from pg_proc p
join pg_type t on t.oid = p.proargtypes[0]
join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
where
    p.proname = format('message_of_row_%s', adoption_id_)
    and p.pronamespace = 'relaybox_internal'::regnamespace
having count(*) > 0
$$;
