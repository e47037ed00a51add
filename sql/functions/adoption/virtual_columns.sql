-- The columns of a table that are generated when they are read: a trigger has no value of them.
create or replace function relaybox_internal.virtual_columns(relation regclass) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select coalesce(array_agg(a.attname::text order by a.attnum), '{}')
from pg_attribute a
where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attgenerated = 'v'
$$;
