-- Returns of a row as JSON the columns that its adoption reads: others may have types that can't be
-- read back from JSON, or may have been dropped or retyped since. Columns of domains stay: a domain
-- may refuse null.
create or replace function relaybox_internal.mapped_json(adoption_id_ integer, content json) returns json
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select coalesce(json_object_agg(e.key, e.value), '{}')
from json_each(content) e
where
    e.key = any(relaybox_internal.columns_read(adoption_id_))
    or e.key in (
        select a.attname
        from pg_proc p
        join pg_type t on t.oid = p.proargtypes[0]
        join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
        join pg_type d on d.oid = a.atttypid and d.typtype = 'd'
        where
            p.proname = format('message_of_row_%s', adoption_id_)
            and p.pronamespace = 'relaybox_internal'::regnamespace
    )
$$;
