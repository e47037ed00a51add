-- What differs between the tables of this store and those that init makes, and the statement that
-- repairs each. expected: sql/table_definitions.json, the rows of list_table_definitions() of a new
-- store with bind_senders on, as table, kind, name, definition. Tables that are not in it belong to
-- others and are no defect.
-- state: missing, changed or added. is_mendable: init runs the statement: it loses nothing, and it
-- reads no table of more than 100 MB under a lock.
-- The same constraint or index under another name is no defect, nor is a constraint of the outbox
-- that holds for new rows only. The policies of the outbox are
-- those of bind_senders(): missing only if one of them is there. Triggers, rules, and policies and
-- row security of others are told by the check foreign_objects of doctor. Takes no lock.
create or replace function relaybox_internal.list_table_defects(expected jsonb)
returns table (state text, defect text, statement text, is_mendable boolean)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
with wanted as materialized (
    select t.key as table_name, k.key as kind, n.key as name, n.value as definition
    from jsonb_each(expected) t
    cross join jsonb_each(t.value) k
    cross join jsonb_each_text(k.value) n
),

found as materialized (
    select f.table_name, f.kind, f.name,
        -- migration 52 leaves rows that are there as they are
        case
            when f.table_name = 'relaybox.outbox' and f.kind = 'constraint'
                then regexp_replace(f.definition, ' NOT VALID$', '')
            else f.definition
        end as definition
    from relaybox_internal.list_table_definitions() f
    where f.table_name in (select w.table_name from wanted w)
),

binding as (
    select exists (
        select from found f join wanted w using (table_name, kind, name) where f.kind = 'policy'
    ) as is_on
),

-- by content, whatever the name is
left_wanted as (
    select w.*
    from wanted w
    cross join binding b
    where
        (b.is_on or w.kind not in ('policy', 'row security'))
        and not (
            w.kind in ('constraint', 'index')
            and (w.table_name, w.kind, w.definition) in (
                select f.table_name, f.kind, f.definition from found f
            )
        )
),

left_found as (
    select f.*
    from found f
    where not (
        f.kind in ('constraint', 'index')
        and (f.table_name, f.kind, f.definition) in (
            select w.table_name, w.kind, w.definition from wanted w
        )
    )
),

differing as (
    select coalesce(w.table_name, f.table_name) as t, coalesce(w.kind, f.kind) as kind,
        coalesce(w.name, f.name) as name, w.definition as wanted, f.definition as found,
        case
            when f.kind is null then 'missing' when w.kind is null then 'added' else 'changed'
        end as state
    from left_wanted w
    full join left_found f
        on f.table_name = w.table_name and f.kind = w.kind and f.name = w.name
    where f.definition is distinct from w.definition
),

-- of a table or column that is missing this alone is told; an index of others harms only if unique
told as (
    select d.*,
        case d.kind
            when 'table' then 'table ' || d.t
            when 'sequence' then
                'sequence ' || case d.name when '' then d.t else 'of column ' || d.name || ' of ' || d.t end
            when 'column' then format('column %I of %s', d.name, d.t)
            when 'default' then format('default of column %I of %s', d.name, d.t)
            when 'not null' then format('not null of column %I of %s', d.name, d.t)
            when 'identity' then format('identity of column %I of %s', d.name, d.t)
            when 'row security' then 'row security of ' || d.t
            when 'replica identity' then 'replica identity of ' || d.t
            else format('%s %I of %s', d.kind, d.name, d.t)
        end as what,
        case
            when d.kind not in ('constraint', 'index') then false
            else (
                -- a table that has no partitions is not in its own tree
                select pg_relation_size(to_regclass(d.t))
                + coalesce(sum(pg_relation_size(p.relid)), 0) <= 100 * 1024 * 1024
                from pg_partition_tree(to_regclass(d.t)) p
            )
        end as is_small
    from differing d
    where
        not (d.state = 'added' and d.kind = 'policy')
        -- forced: it holds for the owner too, whose functions would then see fewer rows
        and not (d.state = 'added' and d.kind = 'row security' and d.found <> 'force')
        and not (d.state = 'added' and d.kind = 'index' and d.found !~ '^unique ')
        and not (d.state = 'missing' and d.kind <> 'table' and (
            d.kind <> 'sequence' and to_regclass(d.t) is null
            or exists (
                select from differing o
                where o.t = d.t and o.state = 'missing'
                    and (
                        o.kind = 'table'
                        or o.kind = 'column' and o.name = d.name
                        and d.kind in ('default', 'not null', 'identity', 'sequence')
                        or o.kind = 'identity' and o.name = d.name and d.kind = 'sequence'
                    )
            )
        ))
        and not (d.state = 'added' and d.kind in ('default', 'not null', 'identity', 'sequence') and exists (
            select from differing o
            where o.t = d.t and o.state = 'added' and o.kind = 'column' and o.name = d.name
        ))
)

select d.state,
    case d.state
        when 'missing' then d.what || ' is missing: ' || left(d.wanted, 200)
        when 'added' then d.what || ' was added: ' || left(d.found, 200)
        else d.what || ' is ' || left(d.found, 200) || ', not ' || left(d.wanted, 200)
    end,
    case d.kind
        when 'table' then 'restore ' || d.t || ' from a backup'
        when 'column' then case d.state
            when 'missing' then format('alter table %s add column %I %s', d.t, d.name, d.wanted)
            when 'added' then format('alter table %s drop column %I', d.t, d.name)
            else format('alter table %s alter column %I type %s', d.t, d.name, d.wanted)
        end
        when 'not null' then format(
            'alter table %s alter column %I %s not null', d.t, d.name,
            case d.state when 'missing' then 'set' else 'drop' end
        )
        when 'default' then format(
            'alter table %s alter column %I %s', d.t, d.name,
            coalesce('set default ' || d.wanted, 'drop default')
        )
        when 'identity' then case d.state
            when 'missing' then format(
                'alter table %1$s alter column %2$I add generated %3$s as identity; '
                'select setval(pg_get_serial_sequence(%4$L, %5$L), (select coalesce(max(%2$I), 0) + 1 from %1$s), false)',
                d.t, d.name, d.wanted, d.t, d.name
            )
            when 'added' then format('alter table %s alter column %I drop identity', d.t, d.name)
            else format('alter table %s alter column %I set generated %s', d.t, d.name, d.wanted)
        end
        when 'sequence' then format(
            'alter sequence %s %s',
            case d.name when '' then d.t else pg_get_serial_sequence(d.t, d.name) end, d.wanted
        )
        when 'row security' then case d.state
            when 'missing' then format('alter table %s enable row level security', d.t)
            else format('alter table %s no force row level security', d.t)
        end
        when 'replica identity' then format('alter table %s replica identity default', d.t)
        when 'policy' then format(
            '%screate policy %I on %s %s',
            case d.state when 'changed' then format('drop policy %I on %s; ', d.name, d.t) else '' end,
            d.name, d.t, d.wanted
        )
        when 'constraint' then case
            when d.state = 'added' then format('alter table %s drop constraint %I', d.t, d.name)
            when d.state = 'missing' then format('alter table %s add constraint %I %s', d.t, d.name, d.wanted)
            when d.found = d.wanted || ' NOT VALID' then
                format('alter table %s validate constraint %I', d.t, d.name)
            else format('alter table %s drop constraint %I, add constraint %2$I %3$s', d.t, d.name, d.wanted)
        end
        else concat(
            case
                when d.state <> 'missing' then format('drop index %s.%I', split_part(d.t, '.', 1), d.name)
            end,
            case d.state when 'changed' then '; ' end,
            case
                when d.state <> 'added' then format(
                    'create %sindex %I %s', substring(d.wanted from '^unique '), d.name,
                    regexp_replace(d.wanted, '^unique ', '')
                )
            end
        )
    end,
    case
        when d.kind in ('table', 'column') then false
        when d.kind in ('constraint', 'index') then d.state <> 'added' and coalesce(d.is_small, false)
        when d.kind in ('identity', 'sequence') then d.state = 'changed'
        else true
    end
from told d
union all
-- triggers of the server itself: a foreign key is checked by them
select 'changed', format('foreign keys of %s are not enforced', g.tgrelid::regclass),
    format('alter table %s enable trigger all', g.tgrelid::regclass), false
from pg_trigger g
where
    g.tgisinternal and g.tgenabled <> 'O'
    and g.tgrelid in (select to_regclass(w.table_name) from wanted w where w.kind = 'table')
group by g.tgrelid
union all
select p.state, p.defect, p.statement, p.is_mendable
from relaybox_internal.list_partition_defects() p
union all
select s.state, s.defect, s.statement, s.is_mendable
from relaybox_internal.list_sequence_defects() s
union all
select h.state, h.defect, h.statement, h.is_mendable
from relaybox_internal.list_inheritance_defects() h
union all
select i.state, i.defect, i.statement, i.is_mendable
from relaybox_internal.list_message_id_defects() i
order by 1 desc, 2
$$;
