-- Returns the SQL expression of a text that a map gives: a column, or parts that are put together.
-- `relaybox_row` is the row in it. The expression is null if a column of it is null. The map has no obstacles
-- (list_adoption_obstacles). No cast of an application's type is run: an enum is written as Postgres does.
create or replace function relaybox_internal.adoption_text(relation regclass, mapped jsonb) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select
    string_agg(
        case
            when jsonb_typeof(p.part) = 'string' then format('%L::pg_catalog.text', p.part #>> '{}')
            when p.part ->> 'filter' = 'lower' then format('pg_catalog.lower(%s)', t.value)
            when p.part ->> 'filter' = 'base64'
                then format(e'pg_catalog.translate(pg_catalog.encode((relaybox_row).%I, ''base64''), e''\\n'', '''')', p.part ->> 'column')
            else t.value
        end,
        ' operator(pg_catalog.||) ' order by p.number
    )
from jsonb_array_elements(case when mapped ? 'column' then jsonb_build_array(mapped) else mapped -> 'parts' end)
    with ordinality p (part, number)
cross join lateral (
    select case
        when jsonb_typeof(p.part) = 'string' then null
        when relaybox_internal.adoption_column_kind(relation, p.part ->> 'column') = 'enum'
            then format('pg_catalog.textin(pg_catalog.enum_out((relaybox_row).%I))', p.part ->> 'column')
        else format('(relaybox_row).%I::pg_catalog.text', p.part ->> 'column')
    end as value
) t
$$;
