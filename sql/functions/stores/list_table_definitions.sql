-- The tables of a store as the catalog has them: one row for each column, not null, default,
-- identity, constraint, index, policy, and sequence. Of tables in the schemas of Relaybox that are
-- no partition; list_partition_defects() compares partitions with their parents. kind and name say
-- which part of the table; definition is the text that makes it, the same on Postgres 14 to 18.
-- Settings of storage, tablespaces and statistics are left out: an administrator may choose them.
-- Indexes that others add are rows too, if they are unique: those refuse messages. Takes no lock.
create or replace function relaybox_internal.list_table_definitions()
returns table (table_name text, kind text, name text, definition text)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
with tables as (
    select c.oid, c.relkind, c.relrowsecurity, c.relforcerowsecurity, c.relreplident,
        c.oid::regclass::text as name
    from pg_class c
    where
        c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
        and c.relkind in ('r', 'p') and not c.relispartition
),

columns as (
    select t.name as table_name, a.attrelid, a.attnum, a.attname::text as name, a.attnotnull,
        a.attidentity, a.attgenerated,
        format_type(a.atttypid, a.atttypmod)
        || case when a.attcollation <> y.typcollation then ' collate ' || l.collname else '' end
        as type
    from tables t
    join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
    join pg_type y on y.oid = a.atttypid
    left join pg_collation l on l.oid = a.attcollation
),

sequences as (
    -- of a column that numbers its rows itself, under the name of the table; else under its own
    select coalesce(o.refobjid::regclass::text, c.oid::regclass::text) as table_name,
        coalesce(a.attname::text, '') as name, q.*
    from pg_class c
    join pg_sequence q on q.seqrelid = c.oid
    left join pg_depend o
        on o.classid = 'pg_class'::regclass and o.objid = c.oid and o.deptype = 'i'
        and o.refclassid = 'pg_class'::regclass
    left join pg_attribute a on a.attrelid = o.refobjid and a.attnum = o.refobjsubid
    where
        c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
        and c.relkind = 'S'
)

select t.name, 'table', '',
    case t.relkind when 'p' then 'partition by ' || pg_get_partkeydef(t.oid) else 'ordinary' end
from tables t
union all
select t.name, 'row security', '',
    case when t.relforcerowsecurity then 'force' when t.relrowsecurity then 'enable' end
from tables t
where t.relrowsecurity or t.relforcerowsecurity
union all
-- full is what default does and more
select t.name, 'replica identity', '', case t.relreplident when 'n' then 'nothing' else 'index' end
from tables t
where t.relreplident not in ('d', 'f')
union all
select c.table_name, 'column', c.name, c.type
from columns c
union all
select c.table_name, 'not null', c.name, 'not null'
from columns c
where c.attnotnull
union all
select c.table_name, 'default', c.name,
    case when c.attgenerated <> '' then 'generated ' else '' end
    || pg_get_expr(d.adbin, d.adrelid)
from columns c
join pg_attrdef d on d.adrelid = c.attrelid and d.adnum = c.attnum
union all
select c.table_name, 'identity', c.name, case c.attidentity when 'a' then 'always' else 'by default' end
from columns c
where c.attidentity <> ''
union all
select s.table_name, 'sequence', s.name,
    format(
        'as %s increment by %s minvalue %s maxvalue %s cache %s %s',
        format_type(s.seqtypid, null), s.seqincrement, s.seqmin, s.seqmax, s.seqcache,
        case when s.seqcycle then 'cycle' else 'no cycle' end
    )
from sequences s
union all
-- Postgres 18 has a row of a not null too
select t.name, 'constraint', o.conname::text, pg_get_constraintdef(o.oid)
from tables t
join pg_constraint o on o.conrelid = t.oid and o.contype in ('p', 'u', 'f', 'c', 'x')
where o.conparentid = 0
union all
select t.name, 'index', i.relname::text,
    case when x.indisunique then 'unique ' else '' end
    || regexp_replace(
        pg_get_indexdef(x.indexrelid), e'^CREATE .*? ON (?:ONLY )?(.*?)(?: WITH \\([^)]*\\))?((?: WHERE .*)?)$',
        e'on \\1\\2'
    )
    || case when x.indisvalid then '' else ' INVALID' end
from tables t
join pg_index x on x.indrelid = t.oid
join pg_class i on i.oid = x.indexrelid
where not exists (
    select from pg_constraint o
    where o.conrelid = t.oid and o.conindid = x.indexrelid and o.contype in ('p', 'u', 'x')
)
union all
select t.name, 'policy', p.polname::text,
    format(
        'as %s for %s to %s%s%s',
        case when p.polpermissive then 'permissive' else 'restrictive' end,
        case p.polcmd
            when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update'
            when 'd' then 'delete' else 'all'
        end,
        array_to_string(array(
            select case r.role when 0 then 'public' else r.role::regrole::text end
            from unnest(p.polroles) r (role) order by 1
        ), ', '),
        ' using (' || regexp_replace(pg_get_expr(p.polqual, p.polrelid), e'\\s+', ' ', 'g') || ')',
        ' with check ('
        || regexp_replace(pg_get_expr(p.polwithcheck, p.polrelid), e'\\s+', ' ', 'g') || ')'
    )
from tables t
join pg_policy p on p.polrelid = t.oid
$$;
