-- What keeps a table from being adopted with this map (is_refusal), or is worth knowing before. Looks
-- into the catalog only, changes nothing. kind: of those that may come after the adoption, and that
-- list_adoption_defects() tells then; null: of others.
create or replace function relaybox_internal.list_adoption_obstacles(
    relation regclass, mapping jsonb, sets_aside boolean
)
returns table (is_refusal boolean, problem text, next_step text, kind text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with target as (
    select
        c.oid, c.relkind, c.relpersistence, c.relispartition, c.relowner, n.nspname,
        format('%I.%I', n.nspname, c.relname) as name, quote_ident(c.relowner::regrole::text) as owner
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where c.oid = relation
),

mapped as (
    select m.field, m.column_name, m.filter, m.is_whole, k.kind
    from relaybox_internal.mapped_columns(mapping) m
    cross join lateral (
        select relaybox_internal.adoption_column_kind(relation, m.column_name) as kind
    ) k
),

found as (
    select 1 as rank, null as kind, true as is_refusal, t.name || case t.relkind
        when 'v' then ' is a view' when 'm' then ' is a materialized view'
        when 'f' then ' is a foreign table' else ' is no table' end as problem,
    'Adopt the table into which the rows are inserted.' as next_step
    from target t
    where t.relkind not in ('r', 'p')
    union all
    select 1, null, true, t.name || ' is temporary', 'Adopt a table that all sessions see.'
    from target t
    where t.relpersistence = 't'
    union all
    select 1, null, true, t.name || ' belongs to Relaybox or to Postgres', 'Adopt a table of an application.'
    from target t
    where t.nspname in ('relaybox', 'relaybox_internal', 'pg_catalog', 'information_schema')
    union all
    select 2, null, true, format('%s belongs to role %s, whose rights login %I lacks', t.name, t.owner, current_user),
        format('As a superuser, or as a role that may grant it: grant %s to %I;', t.owner, current_user)
    from target t
    where not pg_has_role(t.relowner, 'usage')
    union all
    select 3, null, true, format('%s is a partition of %s', t.name, i.inhparent::regclass),
        format(
            'Adopt %s. Its partitions are adopted with it, and the adoption of a partition is taken over.',
            pg_partition_root(t.oid::regclass)
        )
    from target t
    join pg_inherits i on i.inhrelid = t.oid
    where t.relispartition
    union all
    select 3, 'foreign_partition', true, format('partition %s is a foreign table, from which no trigger gets new rows', p.relid),
        'Detach that partition, or adopt each other partition''s table alone.'
    from target t
    cross join pg_partition_tree(t.oid) p
    join pg_class c on c.oid = p.relid
    where c.relkind = 'f'
    union all
    select 4, 'rule', true, format('rule %I of %s may put something else in the place of an insert', w.rulename, t.name),
        format('drop rule %I on %s;', w.rulename, t.name)
    from target t
    join pg_rewrite w on w.ev_class = t.oid
    where t.relkind in ('r', 'p') and w.ev_type = '3' and w.is_instead
    union all
    select 5, 'subscription', true, format(
        'a subscription of logical replication writes into %s; its rows fire no trigger of a statement', r.srrelid::regclass
    ), 'Adopt the table in the database where the rows are inserted, the publisher.'
    from pg_subscription_rel r
    where r.srrelid in (select p.part from relaybox_internal.list_adopted_parts(relation) p)
    union all
    select 6, null, true, format('%s has a trigger relaybox_adopted that no adoption has made', g.tgrelid::regclass),
        format('drop trigger relaybox_adopted on %s;', g.tgrelid::regclass)
    from pg_trigger g
    join pg_proc p on p.oid = g.tgfoid
    where
        g.tgrelid in (select p.part from relaybox_internal.list_adopted_parts(relation) p)
        and g.tgname = 'relaybox_adopted' and not (
            p.pronamespace = 'relaybox_internal'::regnamespace and p.proname in (
                select unnest(array[format('send_rows_%s', a.adoption_id), format('send_part_rows_%s', a.adoption_id)])
                from relaybox_internal.adopted_table a
            )
        )
    union all
    select 7, null, true, format('%s has no column %I, which the map names for %s', t.name, m.column_name, m.field),
        format('Its columns: %s. A text that is always the same is written in quotes: ''%s''',
            (
                select string_agg(quote_ident(a.attname), ', ' order by a.attnum)
                from pg_attribute a
                where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
            ), m.column_name)
    from target t
    cross join mapped m
    where m.kind is null and t.relkind in ('r', 'p')
    union all
    select 8, 'type', true, format('column %I is %s, which can''t be the %s', m.column_name, format_type(a.atttypid, a.atttypmod), m.field),
        case
            when m.kind = 'foreign' then 'Map a column of a type of Postgres, or an enum.'
            when m.field = 'message_id' then format('Map message_id=%s, a hash of the column, or message_id=none.', '{' || m.column_name || '}')
            when m.kind = 'bytes' then format('Map %s=%s.', m.field, '{' || m.column_name || ':base64}')
            when m.field = 'payload' then 'Map a column of json, jsonb, text or bytea, or payload=* for the whole row.'
            when m.field = 'headers' then 'Map a column of jsonb or json, or single headers: header.NAME=COLUMN.'
            else 'Map a column of text, uuid, integer, numeric or boolean.'
        end
    from mapped m
    join pg_attribute a on a.attrelid = relation and a.attname = m.column_name
    where m.kind is not null and case
        when m.kind = 'foreign' then true
        when m.filter = 'base64' then m.kind <> 'bytes'
        when m.field = 'message_id' and m.is_whole then m.kind not in ('uuid', 'text')
        when m.field = 'payload' and m.is_whole then m.kind not in ('json', 'jsonb', 'text', 'bytes')
        when m.field = 'headers' then m.kind not in ('json', 'jsonb')
        when m.field like 'header.%' and m.is_whole then m.kind = 'bytes'
        when m.field = 'payload' then m.kind not in ('text', 'enum', 'uuid', 'number', 'boolean', 'json', 'jsonb')
        else m.kind not in ('text', 'enum', 'uuid', 'number', 'boolean')
    end
    union all
    select 8, 'type', true, format('header %s is mapped to no column of numbers', h.key),
        'Map a column of seconds since 1970, such as: numeric generated always as (extract(epoch from COLUMN)) stored.'
    from jsonb_each(mapping -> 'header') h
    where h.key in ('relaybox-expires-at', 'relaybox-deliver-after') and (
        h.value ? 'parts'
        or relaybox_internal.adoption_column_kind(relation, h.value ->> 'column') in ('text', 'enum', 'uuid', 'boolean', 'time')
    )
    union all
    select 8, 'virtual', true, format('column %I of %s is generated and virtual: a trigger can''t read it, which the %s would do', a.attname, t.name, w.field),
        'Map another column, or make this one stored: generated always as (...) stored.'
    from target t
    join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = 'v'
    cross join lateral (
        select string_agg(distinct m.field, ', ') as field from mapped m where m.column_name = a.attname
    ) w
    where w.field is not null
    union all
    select 8, 'left_out', false, format(
        'column %I of %s is generated and virtual: a trigger can''t read it, so the payload, which is the whole row, lacks it',
        a.attname, t.name
    ), 'If it is needed, make it stored: generated always as (...) stored.'
    from target t
    join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = 'v'
    where mapping -> 'payload' ? 'row'
    union all
    select 6, null, true, format('%s has a column relaybox_row, which is what Relaybox calls the row', t.name), 'Rename it.'
    from target t
    join pg_attribute a on a.attrelid = t.oid and a.attname = 'relaybox_row' and not a.attisdropped
    union all
    select 9, 'foreign_type', true, format(
        '%s has columns of types that are not of Postgres, whose owners lack the rights of the owner of Relaybox: %s would run '
        'their casts and checks with these rights', t.name, w.what
    ), format('Map payload to a column, leave on_unmapped at fail, and adopt no partitioned table. Or: alter type ... owner to %s;', (
        select n.nspowner::regrole from pg_namespace n where n.nspname = 'relaybox_internal'
    ))
    from target t
    cross join lateral (
        select string_agg(u.what, ', ') as what
        from (values
            (mapping -> 'payload' ? 'row', 'payload=*'), (sets_aside, 'on_unmapped: set_aside'), (t.relkind = 'p', 'partitions')
        ) u (is_asked, what)
        where u.is_asked
    ) w
    where t.relkind in ('r', 'p') and w.what is not null and relaybox_internal.runs_foreign_code(relation)
    union all
    select 19, null, false, format(
        'its partition %s is adopted by itself; this adoption is taken over. Rows that were inserted by the name of %s since %s was '
        'attached are not sent', p.part, t.name, p.part
    ), case
        when a.mapping ? 'message_id'
            then '--backlog sends them, with the rows of other partitions: once, and only in this command.'
        else 'The map gives no message_id, so they can''t be told from rows that were sent: insert them into relaybox.outbox.'
    end
    from target t
    cross join relaybox_internal.adoptions_below(relation) b (adoption_id)
    join relaybox_internal.adopted_table a on a.adoption_id = b.adoption_id
    cross join lateral (select relaybox_internal.adopted_relation(a.adoption_id) as part) p
    where not exists (
        select from relaybox_internal.adopted_table own where relaybox_internal.adopted_relation(own.adoption_id) = relation
    )
    union all
    select 19, null, false, format('its partition %s is adopted by itself too; this adoption is taken over', p.part), ''
    from target t
    cross join relaybox_internal.adoptions_below(relation) b (adoption_id)
    cross join lateral (select relaybox_internal.adopted_relation(b.adoption_id) as part) p
    where exists (
        select from relaybox_internal.adopted_table own where relaybox_internal.adopted_relation(own.adoption_id) = relation
    )
    union all
    select 20, null, false, format('%s inherits to %s: rows that are inserted there are not sent', t.name, string_agg(i.inhrelid::regclass::text, ', ')),
        'Adopt these tables too.'
    from target t
    join pg_inherits i on i.inhparent = t.oid
    where t.relkind = 'r'
    group by t.name
    union all
    select 21, null, false, format('%s is unlogged: a crash of the server empties it; messages that were sent stay', t.name), ''
    from target t
    where t.relpersistence = 'u'
    union all
    select 22, null, false, format('%s has no primary key and no column of a time: a backlog of it has no order', t.name),
        'For a backlog, say the order: --order-by COLUMN.'
    from target t
    where
        t.relkind in ('r', 'p') and relaybox_internal.adoption_order(relation) is null
        and not exists (select from relaybox_internal.adoptions_below(relation))
    union all
    select 23, null, false, format(
        'the publication %I publishes all tables: readers of it get the rows of relaybox.outbox too', p.pubname
    ), 'Let the reader pass over schema relaybox, or publish tables by name.'
    from pg_publication p
    where p.puballtables
)

select f.is_refusal, f.problem, f.next_step, f.kind
from found f
order by f.rank, f.problem
$$;
