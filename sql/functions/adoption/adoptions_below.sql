-- The adoptions of partitions of a table, below it at any depth: adopting the table takes them over.
create or replace function relaybox_internal.adoptions_below(relation regclass) returns setof integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select a.adoption_id
from relaybox_internal.adopted_table a
where relaybox_internal.adopted_relation(a.adoption_id) in (
    select p.part from relaybox_internal.list_adopted_parts(relation) p where not p.is_root
)
order by a.adoption_id
$$;
