-- The columns that a map names, with the part of a message that each is for, and the filter.
create or replace function relaybox_internal.mapped_columns(mapping jsonb)
returns table (field text, column_name text, filter text, is_whole boolean)
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
with fields as (
    select m.key as field, m.value
    from jsonb_each(mapping) m
    where m.key <> 'header'
    union all
    select 'header.' || h.key, h.value
    from jsonb_each(mapping -> 'header') h
)

select f.field, f.value ->> 'column', null, true
from fields f
where f.value ? 'column'
union all
select f.field, p.part ->> 'column', p.part ->> 'filter', false
from fields f
cross join jsonb_array_elements(f.value -> 'parts') p (part)
where jsonb_typeof(p.part) = 'object'
$$;
