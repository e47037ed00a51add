-- Returns the columns by which a backlog is ordered if nobody says it. A primary key of numbers; else
-- a column that has the usual name of a time of creation, then the key; else, of uuids, ctid: the
-- place in the table, which is the order of insertion where rows were not updated or deleted; else the
-- key. Null: the table has none of these.
create or replace function relaybox_internal.adoption_order(relation regclass) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with key as (
    select
        array_agg(a.attname::text order by k.place) as names,
        bool_and(relaybox_internal.adoption_column_kind(relation, a.attname) = 'number') as are_numbers,
        bool_or(relaybox_internal.adoption_column_kind(relation, a.attname) = 'uuid') as has_uuid
    from pg_index i
    cross join unnest(i.indkey::smallint[]) with ordinality k (attnum, place)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where i.indrelid = relation and i.indisprimary
),

made as (
    select array_agg(a.attname::text order by u.place) as names
    from pg_attribute a
    join unnest(array[
        'created_at', 'createdat', 'created', 'timestamp', 'occurred_at', 'occurredat', 'inserted_at', 'sent_at'
    ]) with ordinality u (name, place) on lower(a.attname) = u.name
    where
        a.attrelid = relation and not a.attisdropped
        and a.atttypid in ('timestamptz'::regtype, 'timestamp'::regtype, 'int8'::regtype)
)

select
    case
        when k.are_numbers then k.names
        when m.names is not null then m.names[1] || coalesce(k.names, '{}')
        when k.has_uuid then array['ctid']
        else k.names
    end
from key k
cross join made m
$$;
