-- Tables that are read as part of a table of Relaybox though no init made them so, as rows of
-- list_table_defects(): partitions that lie outside the schema of Relaybox, where rights, retention
-- by name and checks of the segments don't look, and tables that inherit from a ledger. They are
-- found from the parents on, whatever their schema and name are. Takes no lock.
create or replace function relaybox_internal.list_inheritance_defects()
returns table (state text, defect text, statement text, is_mendable boolean)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
with recursive children as (
    select i.inhrelid as oid, i.inhparent as parent
    from pg_class p
    join pg_inherits i on i.inhparent = p.oid
    where
        p.relnamespace in (to_regnamespace('relaybox'), to_regnamespace('relaybox_internal'))
        and p.relkind in ('r', 'p')
    union
    select i.inhrelid, i.inhparent
    from children c
    join pg_inherits i on i.inhparent = c.oid
)

select 'changed',
    format('partition %s of %s is not in schema relaybox_internal', c.oid::regclass, h.parent::regclass),
    format(
        'alter %s %s set schema relaybox_internal',
        case c.relkind when 'f' then 'foreign table' else 'table' end, c.oid::regclass
    ),
    true
from children h
join pg_class c on c.oid = h.oid and c.relispartition
where c.relkind in ('r', 'p', 'f') and c.relnamespace <> 'relaybox_internal'::regnamespace
union all
select 'changed',
    format('table %s inherits from %s, so its rows count as rows of it', c.oid::regclass, h.parent::regclass),
    format('alter table %s no inherit %s', c.oid::regclass, h.parent::regclass),
    false
from children h
join pg_class c on c.oid = h.oid and not c.relispartition
where c.relkind in ('r', 'p', 'f')
$$;
