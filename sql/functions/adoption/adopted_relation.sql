-- Returns the table that an adoption's trigger is on, else the table whose rows its function takes,
-- else the table of its name; null if none is there. Both stay with a table that is renamed.
create or replace function relaybox_internal.adopted_relation(adoption_id_ integer) returns regclass
language sql stable
set search_path = pg_catalog, pg_temp
as $$
select coalesce(
    (
        select t.tgrelid::regclass
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid
        where
            p.pronamespace = 'relaybox_internal'::regnamespace
            and p.proname = format('send_rows_%s', adoption_id_)
        order by t.oid
        limit 1
    ),
    (
        select t.typrelid::regclass
        from pg_proc p
        join pg_type t on t.oid = p.proargtypes[0]
        where
            p.pronamespace = 'relaybox_internal'::regnamespace
            and p.proname = format('message_of_row_%s', adoption_id_)
        order by p.oid
        limit 1
    ),
    (
        select to_regclass(a.table_name)
        from relaybox_internal.adopted_table a
        where a.adoption_id = adoption_id_
    )
)
$$;
