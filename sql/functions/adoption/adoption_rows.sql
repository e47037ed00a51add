-- Returns the part of a query that gives the rows `relaybox_row` of an application's table with their messages
-- `m`: without the rows of tables that inherit from it, and with those of its partitions.
create or replace function relaybox_internal.adoption_rows(
    relation regclass, table_name text, mapping jsonb
)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select format(
    'from %s%I.%I relaybox_row cross join lateral (%s) m', case when c.relkind = 'p' then '' else 'only ' end,
    n.nspname, c.relname, relaybox_internal.adoption_query(
        relation, table_name, mapping,
        format(
            'pg_catalog.to_jsonb(relaybox_row) operator(pg_catalog.-) %L::pg_catalog.text[]',
            relaybox_internal.virtual_columns(relation)
        )
    )
)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = relation
$$;
