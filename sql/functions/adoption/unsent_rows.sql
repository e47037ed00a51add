-- Returns the part of a query that follows adoption_rows() of a table that takes adoptions of partitions
-- over: it leaves the rows that have no message yet. Of a partition that was adopted these are rows that
-- were inserted or updated since it was attached, and whose id no message has: who inserted by the
-- name of the partition has sent them. Of other partitions each row whose id no message has.
-- Raises RB044 if an adoption gives no ids.
create or replace function relaybox_internal.unsent_rows(relation regclass, below integer[]) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    taken record;
    ids text := '';
    conditions text := '';
begin
    for taken in
        select a.adoption_id, a.table_name, a.mapping, relaybox_internal.adopted_relation(a.adoption_id) as part
        from relaybox_internal.adopted_table a
        where a.adoption_id = any(below)
        order by a.adoption_id
    loop
        if not taken.mapping ? 'message_id' then
            raise exception using errcode = 'RB044',
                message = format(
                    'the map of partition %s gives no message_id: rows that were inserted by the name of %s since it was attached '
                    'can''t be told from rows that were sent', taken.part, relation
                ),
                hint = 'Send them with an insert into relaybox.outbox, and adopt without --backlog.';
        end if;
        ids := ids || format(
            ' cross join lateral (select q.message_id from (%s) q) id_%s',
            relaybox_internal.adoption_query(relation, taken.table_name, jsonb_build_object(
                'message_id', taken.mapping -> 'message_id', 'header', '{}'::jsonb, 'topic', '{"parts": [""]}'::jsonb,
                'sender', '{"parts": [""]}'::jsonb, 'payload', '{"parts": [""]}'::jsonb
            ), null), taken.adoption_id
        );
        conditions := conditions || format(
            ' and not exists (select from relaybox.outbox o where o.message_id = id_%1$s.message_id)'
            ' and not exists (select from relaybox_internal.adopted_row w where w.message_id = id_%1$s.message_id)'
            ' and not exists (select from relaybox_internal.unmapped_row u where u.is_message'
            ' and u.content::pg_catalog.json ->> ''message_id'' = id_%1$s.message_id::pg_catalog.text)',
            taken.adoption_id
        );
    end loop;
    return ids || ' where coalesce((select age(relaybox_row.xmin) <= s.attached_age from ('
        || coalesce(
            (
                select string_agg(format('select %s::oid as part, %s as attached_age', s.part::oid, s.attached_age), ' union all ')
                from (
                    -- the newest link counts: before, the rows of the partition did not come by this name
                    select t.relid as part, min(age(i.xmin)) as attached_age
                    from unnest(below) b (adoption_id)
                    cross join relaybox_internal.adopted_relation(b.adoption_id) r (relation)
                    join pg_inherits i on i.inhrelid = r.relation
                    cross join pg_partition_tree(r.relation) t
                    group by t.relid
                ) s
            ), 'select null::oid as part, null::integer as attached_age'
        )
        || ') s where s.part = relaybox_row.tableoid), true)' || conditions;
end
$$;
