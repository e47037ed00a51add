-- What is not with the adopted tables of this store as `relaybox adopt` has made it. stops: rows are
-- inserted and not sent, or their insert fails. Reads the catalog and the tables of adoptions only.
create or replace function relaybox_internal.list_adoption_defects()
returns table (adoption_id integer, table_name text, kind text, stops boolean, problem text, next_step text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with adopted as (
    select
        a.adoption_id, a.table_name, a.mapping, a.on_unmapped, a.state, a.backlog_count,
        r.relation, f.now_named, f.root_named,
        -- a partition is adopted with its parent only
        'relaybox adopt ' || relaybox_internal.shell_words(s.store, coalesce(f.root_named, f.now_named, a.table_name)) as command,
        'relaybox unadopt ' || relaybox_internal.shell_words(s.store, coalesce(f.now_named, a.table_name)) as end_command
    from relaybox_internal.adopted_table a
    cross join relaybox_internal.store s
    cross join lateral (select relaybox_internal.adopted_relation(a.adoption_id) as relation) r
    left join pg_class c on c.oid = r.relation
    left join pg_namespace n on n.oid = c.relnamespace
    left join pg_class root on c.relispartition and root.oid = pg_partition_root(r.relation)
    left join pg_namespace rn on rn.oid = root.relnamespace
    cross join lateral (
        select
            quote_ident(n.nspname) || '.' || quote_ident(c.relname) as now_named,
            quote_ident(rn.nspname) || '.' || quote_ident(root.relname) as root_named
    ) f
),

columns_read as ( -- what Postgres knows that the function of the table reads
    select a.adoption_id, array_agg(distinct t.attname::text) as names
    from adopted a
    join pg_proc p
        on p.proname = format('message_of_row_%s', a.adoption_id) and p.pronamespace = 'relaybox_internal'::regnamespace
    join pg_depend d
        on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
        and d.refobjid = a.relation and d.refobjsubid > 0
    join pg_attribute t on t.attrelid = d.refobjid and t.attnum = d.refobjsubid
    group by a.adoption_id
),

columns_mapped as (
    select a.adoption_id, array_agg(distinct m.column_name) as names
    from adopted a
    cross join relaybox_internal.mapped_columns(a.mapping) m
    group by a.adoption_id
),

parts as (
    select a.adoption_id, p.part, p.is_root, g.oid as trigger_id, g.tgenabled
    from adopted a
    cross join lateral relaybox_internal.list_adopted_parts(a.relation) p
    left join pg_trigger g on g.tgrelid = p.part and g.tgname = 'relaybox_adopted'
    where a.relation is not null
),

found as (
    select a.adoption_id, a.table_name, 'table' as kind, true as stops, 'the table is gone' as problem,
        a.end_command as next_step
    from adopted a
    where a.relation is null
    union all
    select a.adoption_id, a.table_name, 'renamed', o.is_other, format('the table is named %s now; its rows are sent', a.now_named)
        || case when o.is_other then format('. %s is another table now, whose rows are not sent', a.table_name) else '' end,
        format('Write the new name into relaybox.yaml and run: relaybox adopt %s', (
            select relaybox_internal.shell_words(s.store, a.now_named) from relaybox_internal.store s
        ))
    from adopted a
    cross join lateral (
        select exists (
            select
            from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where
                c.relkind in ('r', 'p') and quote_ident(n.nspname) || '.' || quote_ident(c.relname) = a.table_name
                and c.oid not in (select q.relation from adopted q where q.relation is not null)
        ) as is_other
    ) o
    where a.now_named <> a.table_name and a.root_named is null
    union all
    select a.adoption_id, a.table_name, 'parent', u.is_unsent,
        'the table ' || case when a.now_named <> a.table_name then format('is named %s now, and ', a.now_named) else '' end || case
            when u.is_unsent then format(
                'is a partition of %s now: rows that are inserted by the name of that one are not sent', a.root_named
            )
            else format('is a partition of %s now, which is adopted too: its rows are sent by two maps', a.root_named)
        end,
        a.command || case
            when not u.is_unsent then ', which takes this adoption over'
            when a.mapping ? 'message_id'
                then ' --backlog, which takes this adoption over and sends once what was inserted by that name'
            else ', which takes this adoption over; rows of meanwhile are in the table and not in the outbox'
        end
    from adopted a
    cross join lateral (
        select exists (
            select from pg_partition_ancestors(a.relation) x
            where x.relid <> a.relation and not exists (
                select from pg_trigger g where g.tgrelid = x.relid and g.tgname = 'relaybox_adopted'
            )
        ) as is_unsent
    ) u
    where a.root_named is not null
    union all
    select a.adoption_id, a.table_name, 'trigger', true,
        case
            when p.trigger_id is null and p.is_root
                then 'trigger relaybox_adopted was dropped: what is inserted is not sent'
            when p.trigger_id is null then format(
                'partition %s has no trigger relaybox_adopted: rows that are inserted into it by its own name are not sent', p.part
            )
            when p.tgenabled = 'D' then format('trigger relaybox_adopted is disabled on %s: what is inserted is not sent', p.part)
            else format(
                'trigger relaybox_adopted on %s does not fire with session_replication_role = %s: what such sessions '
                'insert is not sent', p.part, case p.tgenabled when 'R' then 'origin' else 'replica' end
            )
        end,
        a.command || '; rows of meanwhile are in the table and not in the outbox'
    from parts p
    join adopted a using (adoption_id)
    where p.tgenabled is distinct from 'A'
    union all
    select a.adoption_id, a.table_name, 'function', true, format(
        'function relaybox_internal.%s is missing: each insert fails', f.name
    ), a.command
    from adopted a
    cross join unnest(array['send_rows_', 'send_part_rows_', 'message_of_row_', 'message_of_json_', 'message_of_whole_']) k (name)
    cross join lateral (select k.name || a.adoption_id as name) f
    where a.relation is not null and (k.name <> 'message_of_whole_' or a.mapping -> 'payload' ? 'row') and not exists (
        select from pg_proc p where p.proname = f.name and p.pronamespace = 'relaybox_internal'::regnamespace
    )
    union all
    select a.adoption_id, a.table_name, 'column', r.names is null, case
            when r.names is null then format(
                'its column %s, which the map names, is gone', (
                    select string_agg(quote_ident(u.name), ', ' order by u.name) from unnest(c.names) u (name)
                    where relaybox_internal.adoption_column_kind(a.relation, u.name) is null
                )
            )
            else format(
                'column %1$s was renamed: the map names %1$s, the table has %2$s; its rows are sent%3$s',
                (select string_agg(quote_ident(u.name), ', ' order by u.name) from unnest(c.names) u (name) where u.name <> all(r.names)),
                (select string_agg(quote_ident(u.name), ', ' order by u.name) from unnest(r.names) u (name) where u.name <> all(c.names)),
                (
                    select format(' with that one. Column %s is another one now', string_agg(quote_ident(u.name), ', ' order by u.name))
                    from unnest(c.names) u (name)
                    where
                        u.name <> all(r.names)
                        and relaybox_internal.adoption_column_kind(a.relation, u.name) is not null
                    having count(*) > 0
                )
            )
        end,
        'Write the new name into the map in relaybox.yaml and run: ' || a.command
    from adopted a
    join columns_mapped c using (adoption_id)
    left join columns_read r using (adoption_id)
    where
        a.relation is not null and exists (
            select from unnest(c.names) u (name)
            where relaybox_internal.adoption_column_kind(a.relation, u.name) is null or u.name <> all(r.names)
        )
    union all
    -- what has come since the adoption; rows with types of others are sent all the same
    select
        a.adoption_id, a.table_name, o.kind, o.is_refusal and o.kind not in ('type', 'foreign_type'), o.problem, o.next_step
    from adopted a
    cross join lateral relaybox_internal.list_adoption_obstacles(a.relation, a.mapping, a.on_unmapped = 'set_aside') o
    where a.relation is not null and o.kind is not null
    union all
    select a.adoption_id, a.table_name, 'backlog', true, format(
        'its backlog is not moved: %s, with those of later inserts',
        case w.waiting when 1 then '1 message waits' else w.waiting || ' messages wait' end
    ), a.command || ' --backlog'
    from adopted a
    cross join lateral (
        select count(*) as waiting from relaybox_internal.adopted_row r where r.adoption_id = a.adoption_id
    ) w
    where a.state = 'backlog' or w.waiting > 0 -- a writer was open in a partition that was detached meanwhile
    union all
    select a.adoption_id, a.table_name, 'unmapped', false, format(
        '%s unmapped, the first at %s: %s', case u.row_count when 1 then '1 row is' else u.row_count || ' rows are' end,
        to_char(u.first_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'),
        u.problems
    ), format('Correct the map, then run: %s --send-unmapped', a.command)
    from adopted a
    join (
        select r.adoption_id, count(*) as row_count, min(r.set_aside_at) as first_at, string_agg(distinct r.problem, '; ') as problems
        from relaybox_internal.unmapped_row r
        group by r.adoption_id
    ) u using (adoption_id)
    union all
    select a.adoption_id, a.table_name, 'detached', false, format(
        '%s is no partition of it any more; its rows are still sent', g.tgrelid::regclass
    ), format('drop trigger relaybox_adopted on %s;', g.tgrelid::regclass)
    from adopted a
    join pg_proc p
        on p.proname = format('send_part_rows_%s', a.adoption_id) and p.pronamespace = 'relaybox_internal'::regnamespace
    join pg_trigger g on g.tgfoid = p.oid
    where g.tgrelid not in (select q.part from parts q where q.adoption_id = a.adoption_id)
)

select f.adoption_id, f.table_name, f.kind, f.stops, f.problem, f.next_step
from found f
order by f.table_name, f.stops desc, f.kind
$$;
