-- Returns the SQL expression of the headers of a row `relaybox_row`: those that the map names one by one, after
-- those of its column of headers. A header whose value is null is left out. Times are in UTC, whatever
-- the session of the application is set to.
create or replace function relaybox_internal.adoption_headers(relation regclass, mapping jsonb) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with single as (
    select
        h.key as name,
        case
            when
                h.value ? 'parts'
                or relaybox_internal.adoption_column_kind(relation, h.value ->> 'column') = 'enum'
                then relaybox_internal.adoption_text(relation, h.value)
            else format('(relaybox_row).%I', h.value ->> 'column')
        end as value,
        coalesce(relaybox_internal.adoption_column_kind(relation, h.value ->> 'column') = 'time', false) as is_time
    from jsonb_each(mapping -> 'header') h
),

objects as (
    select
        s.name,
        format(
            'case when %s is not null then pg_catalog.jsonb_build_object(%L::pg_catalog.text, %s) end', s.value, s.name,
            case
                when s.is_time then format(
                    'pg_catalog.to_char(pg_catalog.timezone(''UTC'', %s), ''YYYY-MM-DD"T"HH24:MI:SS.US"Z"'')', s.value
                )
                else s.value
            end
        ) as made
    from single s
    union all
    select '', format('(relaybox_row).%I::pg_catalog.jsonb', mapping -> 'headers' ->> 'column')
    where mapping ? 'headers'
)

select
    case
        when count(*) = 1 then min(o.made)
        else format(
            'nullif(%s, ''{}''::pg_catalog.jsonb)',
            string_agg(format('coalesce(%s, ''{}''::pg_catalog.jsonb)', o.made), ' operator(pg_catalog.||) ' order by o.name)
        )
    end
from objects o
$$;
