-- What differs between the segments of the outbox and of logs, the logs, and their parents, as rows
-- of list_table_defects(). Postgres itself keeps the columns, not nulls, checks, keys and indexes
-- of a partition as those of its parent: what is left are defaults, constraints and unique indexes
-- of its own, its replica identity, and whether it is a partition at all. Takes no lock.
create or replace function relaybox_internal.list_partition_defects()
returns table (state text, defect text, statement text, is_mendable boolean)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
with recursive partitions as (
    select i.inhrelid as oid, i.inhparent as parent, p.relname = 'log' as is_log
    from pg_class p
    join pg_inherits i on i.inhparent = p.oid
    where p.oid in (to_regclass('relaybox.outbox'), to_regclass('relaybox_internal.log'))
    union all
    select i.inhrelid, i.inhparent, false
    from partitions p
    join pg_inherits i on i.inhparent = p.oid
    where p.is_log
),

members as materialized (
    select p.oid, p.parent, p.is_log, c.relname, c.relreplident,
        c.relforcerowsecurity
    from partitions p
    join pg_class c on c.oid = p.oid
),

-- a thousand segments have the same few defaults: each text is made once
defaults as materialized (
    select d.adrelid, a.attname, d.adbin::text as tree, d.oid
    from pg_attrdef d
    join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid in (select m.oid from members m union all select m.parent from members m)
),

texts as materialized (
    select t.tree, pg_get_expr(d.adbin, d.adrelid) as text
    from (select s.tree, min(s.oid) as oid from defaults s group by s.tree) t
    join pg_attrdef d on d.oid = t.oid
),

written as materialized (
    select d.adrelid, d.attname, t.text
    from defaults d
    join texts t on t.tree = d.tree
),

-- the parent's; of a log also its own number
wanted as materialized (
    select m.oid, w.attname, w.text
    from members m
    join written w on w.adrelid = m.parent
    where not m.is_log
    union all
    select m.oid, 'log_id', substr(m.relname, 5)
    from members m
    where m.is_log
)

select case when w.text is null then 'added' when f.text is null then 'missing' else 'changed' end,
    format(
        'default of column %I of %s is %s, not %s', coalesce(w.attname, f.attname),
        coalesce(w.oid, f.adrelid)::regclass, coalesce(left(f.text, 200), 'missing'),
        coalesce(w.text, 'missing')
    ),
    format(
        'alter table %s alter column %I %s', coalesce(w.oid, f.adrelid)::regclass,
        coalesce(w.attname, f.attname), coalesce('set default ' || w.text, 'drop default')
    ),
    true
from wanted w
full join (
    select t.* from written t where t.adrelid in (select m.oid from members m)
) f on f.adrelid = w.oid and f.attname = w.attname
where f.text is distinct from w.text
union all
select 'added', format('constraint %I was added to %s', o.conname, m.oid::regclass),
    format('alter table %s drop constraint %I', m.oid::regclass, o.conname), false
from members m
join pg_constraint o on o.conrelid = m.oid and o.contype in ('p', 'u', 'f', 'c', 'x')
where o.coninhcount = 0 and o.conparentid = 0
union all
select 'added', format('unique index %s was added to %s', x.indexrelid::regclass, m.oid::regclass),
    format('drop index %s', x.indexrelid::regclass), false
from members m
join pg_index x on x.indrelid = m.oid
where
    x.indisunique
    and not exists (select from pg_inherits i where i.inhrelid = x.indexrelid)
    and not exists (
        select from pg_constraint o where o.conrelid = m.oid and o.conindid = x.indexrelid
    )
union all
select 'changed', format('replica identity of %s is not default', m.oid::regclass),
    format('alter table %s replica identity default', m.oid::regclass), true
from members m
where m.relreplident not in ('d', 'f')
union all
select 'changed', format('row security of %s is force', m.oid::regclass),
    format('alter table %s no force row level security', m.oid::regclass), true
from members m
where m.relforcerowsecurity
union all
-- a seal is the record and the trigger: only together are late rows refused
select case when g.oid is null then 'missing' else 'changed' end,
    format(
        'trigger refuse_late_row of sealed segment %s is %s', m.oid::regclass,
        case when g.oid is null then 'missing' else 'not enabled always' end
    ),
    case
        when g.oid is null then format(
            'create trigger refuse_late_row before insert on %s for each row execute function '
            'relaybox_internal.refuse_late_row(); ', m.oid::regclass
        )
        else ''
    end || format('alter table %s enable always trigger refuse_late_row', m.oid::regclass),
    true
from members m
join relaybox_internal.sealed_segment s on s.segment = m.oid
left join pg_trigger g on g.tgrelid = m.oid and g.tgname = 'refuse_late_row' and not g.tgisinternal
where
    s.xmin::text::bigint = s.sealed_xid::text::numeric % 4294967296
    and g.tgenabled is distinct from 'A'
union all
select 'missing', format('%s is not a partition of %s', c.oid::regclass, p.name),
    format(
        'alter table %s attach partition %s for values from (%s) to (%s)', p.name, c.oid::regclass,
        (n.parts)[2]::bigint * s.segment_rows, ((n.parts)[2]::bigint + 1) * s.segment_rows
    ),
    false
from pg_class c
cross join regexp_match(c.relname, '^(outbox|log_[0-9]+)_s([0-9]{6,18})$') n (parts)
cross join relaybox_internal.store s
cross join lateral (
    select case (n.parts)[1] when 'outbox' then 'relaybox.' else 'relaybox_internal.' end
    || (n.parts)[1] as name
) p
where
    c.relnamespace = 'relaybox_internal'::regnamespace and c.relkind = 'r'
    and n.parts is not null and not c.relispartition
$$;
