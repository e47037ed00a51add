-- Returns the SQL expression that makes a row of an adopted table from a row `relaybox_row` of a
-- partition of it: column by column, by name, since the partition may have them in another order. No
-- value is converted. A table that was a partition once may lack columns that are not read.
-- Raises RB045 if it lacks one that is read, or has it with another type.
create or replace function relaybox_internal.part_row(adoption_id_ integer, part regclass) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    made text;
    missing text[];
    root regclass;
begin
    select
        c.oid,
        format(
            'row(%s)::%I.%I',
            string_agg(
                -- a virtual column has no value in a trigger
                case when q.attnum is null or q.attgenerated = 'v' then 'null' else format('relaybox_row.%I', a.attname) end,
                ', ' order by a.attnum
            ),
            n.nspname, c.relname
        ),
        array_agg(a.attname::text order by a.attnum) filter (where q.attnum is null)
    into root, made, missing
    from pg_proc p
    join pg_type t on t.oid = p.proargtypes[0]
    join pg_class c on c.oid = t.typrelid
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attribute q
        on q.attrelid = part and q.attname = a.attname and q.attnum > 0 and not q.attisdropped
        and q.atttypid = a.atttypid
    where
        p.proname = format('message_of_row_%s', adoption_id_)
        and p.pronamespace = 'relaybox_internal'::regnamespace
    group by c.oid, n.nspname, c.relname;
    missing := array(select unnest(missing) intersect select unnest(relaybox_internal.columns_read(adoption_id_)) order by 1);
    if missing <> '{}' then
        raise exception using errcode = 'RB045',
            message = format(
                'table %s sends its rows as a partition of %s, and lacks its column %s, or has it with another type',
                part, root, array_to_string(missing, ', ')
            ),
            hint = format('To send its rows no more: drop trigger relaybox_adopted on %s;', part);
    end if;
    -- without message_of_row_N each insert fails: the call names the function
    return coalesce(made, 'relaybox_row');
end
$$;
