-- The tables that a trigger of an adoption has to be on: the table, and each partition below it, since
-- rows may be inserted into a partition itself.
create or replace function relaybox_internal.list_adopted_parts(relation regclass)
returns table (part regclass, is_root boolean)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select relation, true
union all
select p.relid, false
from pg_partition_tree(relation) p
where p.relid <> relation
$$;
