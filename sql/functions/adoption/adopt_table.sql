-- Adopts a table, or makes its adoption as it is asked for now: from the commit on, what is inserted
-- is sent. A backlog is cut in the same transaction: each row that is there is taken once, and rows
-- of later transactions wait behind it (move_adopted_rows). The caller holds the lock that keeps
-- writers out (lock_adopted), so that no row is in neither or in both. Raises RB044.
create or replace function relaybox_internal.adopt_table(
    relation regclass, table_name_ text, mapping_ jsonb, on_unmapped_ text, with_backlog boolean,
    order_columns text[]
)
returns table (adoption_id integer, is_new boolean, changed text[], backlog_count bigint, waiting_count bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- the text of values is that of the trigger (adoption_trigger), whatever the session says
set timezone = 'UTC'
set datestyle = iso
set intervalstyle = postgres
set extra_float_digits = 1
set bytea_output = hex
set row_security = off
as $$
declare
    adopted relaybox_internal.adopted_table;
    was_there boolean;
    placed text[];
    first_of_refused record;
    others integer[]; -- adoptions on record under names that other tables have now
begin
    select a.* into adopted from relaybox_internal.adopted_table a
    where a.table_name = table_name_ or relaybox_internal.adopted_relation(a.adoption_id) = relation
    order by relaybox_internal.adopted_relation(a.adoption_id) = relation desc nulls last
    limit 1
    for update;
    was_there := found;
    if was_there and relaybox_internal.adopted_relation(adopted.adoption_id) <> relation then
        raise exception using errcode = 'RB044',
            message = format(
                'the adoption of %s is of a table that is named %s now, and %s is another table: its rows are not sent',
                adopted.table_name, relaybox_internal.adopted_relation(adopted.adoption_id), table_name_
            ),
            hint = format(
                'Write the new name into relaybox.yaml, run: relaybox adopt %1$s. Or end it: relaybox unadopt %1$s. Then adopt %2$s.',
                (
                    select relaybox_internal.shell_words(
                        s.store, relaybox_internal.adopted_relation(adopted.adoption_id)::text
                    ) from relaybox_internal.store s
                ), table_name_
            );
    end if;
    changed := '{}';
    if not was_there then
        insert into relaybox_internal.adopted_table as a (table_name, mapping, on_unmapped, state, template)
        values (table_name_, mapping_, on_unmapped_, case when with_backlog then 'backlog' else 'sending' end, 4)
        returning a.* into adopted;
    elsif with_backlog and adopted.backlog_count is null then
        raise exception using errcode = 'RB044',
            message = format(
                'table %s was adopted at %s without its backlog; rows of before can''t be told from rows that were sent since',
                table_name_, adopted.adopted_at
            ),
            hint = format(
                'Send the rows that are missing with an insert into relaybox.outbox, or: relaybox unadopt %s, then adopt '
                'with --backlog, which sends each row of the table, once more those that were sent.',
                (select relaybox_internal.shell_words(s.store, table_name_) from relaybox_internal.store s)
            );
    elsif (adopted.table_name, adopted.mapping, adopted.on_unmapped) is distinct from (table_name_, mapping_, on_unmapped_) then
        changed := case when adopted.table_name <> table_name_ then array['name'] else '{}' end
            || case when adopted.mapping <> mapping_ then array['map'] else '{}' end
            || case when adopted.on_unmapped <> on_unmapped_ then array['on_unmapped'] else '{}' end;
        -- tables that have swapped names: each of them gets the name that it has now
        with recursive renamed (adoption_id, now_named) as (
            select a.adoption_id, n.now_named
            from relaybox_internal.adopted_table a
            cross join lateral (
                select format('%I.%I', s.nspname, c.relname) as now_named
                from pg_class c join pg_namespace s on s.oid = c.relnamespace
                where c.oid = relaybox_internal.adopted_relation(a.adoption_id)
            ) n
            where a.table_name = table_name_ and a.adoption_id <> adopted.adoption_id
            union
            select a.adoption_id, n.now_named
            from renamed r
            join relaybox_internal.adopted_table a on a.table_name = r.now_named and a.adoption_id <> adopted.adoption_id
            cross join lateral (
                select format('%I.%I', s.nspname, c.relname) as now_named
                from pg_class c join pg_namespace s on s.oid = c.relnamespace
                where c.oid = relaybox_internal.adopted_relation(a.adoption_id)
            ) n
        )

        select array_agg(r.adoption_id) into others from renamed r;
        update relaybox_internal.adopted_table a
        set table_name = format('(adoption %s)', a.adoption_id)
        where a.adoption_id = any(others);
        update relaybox_internal.adopted_table a
        set table_name = table_name_, mapping = mapping_, on_unmapped = on_unmapped_
        where a.adoption_id = adopted.adoption_id;
        update relaybox_internal.adopted_table a
        set table_name = (
            select format('%I.%I', s.nspname, c.relname)
            from pg_class c join pg_namespace s on s.oid = c.relnamespace
            where c.oid = relaybox_internal.adopted_relation(a.adoption_id)
        )
        where a.adoption_id = any(others);
    end if;
    perform relaybox_internal.make_adoption_functions(adopted.adoption_id, relation);
    placed := relaybox_internal.place_adoption_triggers(adopted.adoption_id, relation);
    if was_there then
        changed := changed || array(select 'trigger on ' || p.part from unnest(placed) p (part));
    end if;
    if with_backlog and not was_there then
        if on_unmapped_ = 'fail' then
            select u.* into first_of_refused from relaybox_internal.list_unmapped(relation, table_name_, mapping_) u limit 1;
            if found then
                raise exception using errcode = 'RB044',
                    message = format(
                        'table %s: %s: %s, such as %s', table_name_,
                        case first_of_refused.row_count
                            when 1 then '1 row can''t be a message' else first_of_refused.row_count || ' rows can''t be messages'
                        end,
                        first_of_refused.problem, first_of_refused.first_rows[1]
                    ),
                    hint = 'Correct the rows or the map, or set them aside: --on-unmapped set_aside';
            end if;
        else
            execute format(
                'insert into relaybox_internal.unmapped_row (adoption_id, problem, content) '
                'select %s, m.problem, row_to_json(relaybox_row)::text %s where not m.is_good',
                adopted.adoption_id, relaybox_internal.adoption_rows(relation, table_name_, mapping_)
            );
        end if;
        execute format(
            'insert into relaybox_internal.adopted_row '
            '(adoption_id, message_id, topic, sender, key, headers, payload, payload_bytes) '
            'select %s, %s, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes %s where m.is_good order by %s',
            adopted.adoption_id,
            case when mapping_ ? 'message_id' then 'm.message_id' else 'relaybox.new_message_id()' end,
            relaybox_internal.adoption_rows(relation, table_name_, mapping_),
            (
                select string_agg(format('relaybox_row.%I', o.name), ', ' order by o.place)
                from unnest(order_columns) with ordinality o (name, place)
            )
        );
        get diagnostics backlog_count = row_count;
        update relaybox_internal.adopted_table a set backlog_count = adopt_table.backlog_count
        where a.adoption_id = adopted.adoption_id;
    end if;
    return query
    select
        a.adoption_id, not was_there, adopt_table.changed, a.backlog_count,
        (select count(*) from relaybox_internal.adopted_row w where w.adoption_id = a.adoption_id)
    from relaybox_internal.adopted_table a
    where a.adoption_id = adopted.adoption_id;
end
$$;
