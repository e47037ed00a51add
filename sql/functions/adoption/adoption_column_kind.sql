-- Returns what a column of an application's table is for an adoption: uuid, text, enum, number,
-- boolean, json, jsonb, bytes, time, other (another type of Postgres) or foreign (a type that is not
-- made by a superuser: to make JSON or text of it may run code of its owner). Null: the table has no
-- such column. A domain is as its base.
create or replace function relaybox_internal.adoption_column_kind(relation regclass, column_name text)
returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with recursive base (oid, typtype, typbasetype, depth) as (
    select t.oid, t.typtype, t.typbasetype, 0
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    where
        a.attrelid = relation and a.attname = column_name and a.attnum > 0 and not a.attisdropped
    union all
    select t.oid, t.typtype, t.typbasetype, b.depth + 1
    from base b
    join pg_type t on t.oid = b.typbasetype
    where b.typtype = 'd'
)

select
    case
        when b.oid = 'uuid'::regtype then 'uuid'
        when b.oid = 'json'::regtype then 'json'
        when b.oid = 'jsonb'::regtype then 'jsonb'
        when b.oid = 'bytea'::regtype then 'bytes'
        when b.oid = 'boolean'::regtype then 'boolean'
        when b.oid = 'timestamptz'::regtype then 'time'
        when b.oid in ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype)
            then 'number'
        when b.typtype = 'e' and b.depth = 0 then 'enum'
        when t.typcategory = 'S' and b.typtype = 'b' and o.rolsuper then 'text'
        when t.typnamespace = 'pg_catalog'::regnamespace and b.typtype <> 'p' then 'other'
        else 'foreign'
    end
from base b
join pg_type t on t.oid = b.oid
join pg_roles o on o.oid = t.typowner
where b.typtype <> 'd'
$$;
