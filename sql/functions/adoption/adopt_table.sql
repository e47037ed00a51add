-- Adopts a table, or makes its adoption as it is asked for now: from the commit on, what is inserted
-- is sent. A backlog is cut in the same transaction: each row that is there is taken once, and rows
-- of later transactions wait behind it (move_adopted_rows). Adoptions of partitions of the table are
-- taken over; a backlog is of rows that have no message yet then (unsent_rows). The caller holds the
-- lock that keeps writers out (lock_adopted), so that no row is in neither or in both. Raises RB044.
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
    below constant integer[] := array(select relaybox_internal.adoptions_below(relation));
    below_names text[];
    is_taken boolean; -- the adoption is of a partition
    takes_backlog boolean;
    rows_taken text;
    set_aside_before text := '';
begin
    select a.* into adopted from relaybox_internal.adopted_table a
    where
        a.table_name = table_name_ or a.adoption_id = any(below)
        or relaybox_internal.adopted_relation(a.adoption_id) = relation
    order by
        relaybox_internal.adopted_relation(a.adoption_id) = relation desc nulls last, a.adoption_id = any(below) desc, a.adoption_id
    limit 1
    for update;
    was_there := found;
    is_taken := was_there and adopted.adoption_id = any(below);
    takes_backlog := with_backlog and (is_taken or not was_there);
    if was_there and not is_taken and relaybox_internal.adopted_relation(adopted.adoption_id) <> relation then
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
    select array_agg(relaybox_internal.adopted_relation(b.adoption_id)::text order by b.adoption_id) into below_names
    from unnest(below) b (adoption_id);
    rows_taken := relaybox_internal.adoption_rows(relation, table_name_, mapping_)
        || case when takes_backlog and is_taken then relaybox_internal.unsent_rows(relation, below) else ' where true' end;
    if not was_there then
        insert into relaybox_internal.adopted_table as a (table_name, mapping, on_unmapped, state, template)
        values (table_name_, mapping_, on_unmapped_, case when with_backlog then 'backlog' else 'sending' end, 6)
        returning a.* into adopted;
    elsif with_backlog and not is_taken and adopted.backlog_count is null then
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
    if below <> '{}' then
        update relaybox_internal.adopted_table a set state = 'backlog'
        where a.adoption_id = adopted.adoption_id and (takes_backlog or exists (
            select from relaybox_internal.adopted_table b where b.adoption_id = any(below) and b.state = 'backlog'
        ));
    end if;
    perform relaybox_internal.make_adoption_functions(adopted.adoption_id, relation);
    placed := relaybox_internal.place_adoption_triggers(adopted.adoption_id, relation);
    if below <> '{}' then
        perform relaybox_internal.take_over_adoptions(adopted.adoption_id, below);
        -- without a backlog now, rows of meanwhile can't be told from later ones: --backlog is refused then
        update relaybox_internal.adopted_table a set backlog_count = null
        where a.adoption_id = adopted.adoption_id and is_taken and not takes_backlog;
        changed := changed || array(select 'adoption of partition ' || b.name from unnest(below_names) b (name));
    elsif was_there then
        changed := changed || array(select 'trigger on ' || p.part from unnest(placed) p (part));
    end if;
    if takes_backlog then
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
            if is_taken then
                -- the columns of a partition may stand in another order
                set_aside_before := format(
                    ' and not exists (select from relaybox_internal.unmapped_row u where u.adoption_id = %s and not u.is_message '
                    'and (select json_object_agg(k.key, k.value order by k.key)::text from json_each(u.content::json) k) '
                    '= (select json_object_agg(k.key, k.value order by k.key)::text from json_each(row_to_json(relaybox_row)) k))',
                    adopted.adoption_id
                );
            end if;
            execute format(
                'insert into relaybox_internal.unmapped_row (adoption_id, problem, content) '
                'select %s, m.problem, row_to_json(relaybox_row)::text %s and not m.is_good%s',
                adopted.adoption_id, rows_taken, set_aside_before
            );
        end if;
        execute format(
            'insert into relaybox_internal.adopted_row '
            '(adoption_id, message_id, topic, sender, key, headers, payload, payload_bytes) '
            'select %s, %s, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes %s and m.is_good order by %s',
            adopted.adoption_id,
            case when mapping_ ? 'message_id' then 'm.message_id' else 'relaybox.new_message_id()' end,
            rows_taken,
            (
                select string_agg(format('relaybox_row.%I', o.name), ', ' order by o.place)
                from unnest(order_columns) with ordinality o (name, place)
            )
        );
        get diagnostics backlog_count = row_count;
        update relaybox_internal.adopted_table a
        set backlog_count = coalesce(a.backlog_count, 0) + adopt_table.backlog_count
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
