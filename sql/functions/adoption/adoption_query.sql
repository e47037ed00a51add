-- Returns the query that makes a message of a row `relaybox_row` of an application's table: one row with the
-- columns of a message, `is_good`, whether it can be one, and `problem`, why not. It is one select
-- without from, so that Postgres puts its expressions into the statement around it: what is not asked
-- for costs nothing. `whole_row`: the SQL expression of the whole row as jsonb, for a map whose payload
-- it is; without virtual columns, which a trigger can't read. The map has no obstacles
-- (list_adoption_obstacles).
create or replace function relaybox_internal.adoption_query(
    relation regclass, table_name text, mapping jsonb, whole_row text
)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    message_id text := 'null::pg_catalog.uuid';
    topic constant text := relaybox_internal.adoption_text(relation, mapping -> 'topic');
    sender constant text := relaybox_internal.adoption_text(relation, mapping -> 'sender');
    key constant text := coalesce(relaybox_internal.adoption_text(relation, mapping -> 'key'), 'null::pg_catalog.text');
    payload text := 'null::pg_catalog.text';
    payload_bytes text := 'null::pg_catalog.bytea';
    headers text := 'null::pg_catalog.jsonb';
    id_column constant text := mapping -> 'message_id' ->> 'column';
    payload_column constant text := mapping -> 'payload' ->> 'column';
    time_headers constant text[] := array(
        select h.name from unnest(array['relaybox-expires-at', 'relaybox-deliver-after']) h (name)
        where mapping ? 'headers' or mapping -> 'header' ? h.name
    );
    time_header text;
    conditions text[] := '{}'; -- each of a good message
    problems text[] := '{}'; -- what is said where the condition at the same place is not true
begin
    if id_column is not null then
        message_id := case
            when relaybox_internal.adoption_column_kind(relation, id_column) = 'uuid'
                then format('(relaybox_row).%I::pg_catalog.uuid', id_column)
            else format(
                'case when (relaybox_row).%1$I::pg_catalog.text operator(pg_catalog.~) %2$L '
                'then (relaybox_row).%1$I::pg_catalog.text::pg_catalog.uuid end',
                id_column, '^[{]?[0-9A-Fa-f]{4}(-?[0-9A-Fa-f]{4}){7}[}]?$'
            )
        end;
        conditions := conditions || format('%s is not null', message_id);
        problems := problems || format('%s is null or no uuid', quote_ident(id_column));
    elsif mapping -> 'message_id' ? 'parts' then
        message_id := format(
            'pg_catalog.md5(%L::pg_catalog.text operator(pg_catalog.||) %s)::pg_catalog.uuid',
            table_name || '/', relaybox_internal.adoption_text(relation, mapping -> 'message_id')
        );
        conditions := conditions || format('%s is not null', message_id);
        problems := problems || 'a column of message_id is null'::text;
    end if;
    if mapping -> 'payload' ? 'row' then
        payload := format('(%s)::pg_catalog.text', whole_row);
    elsif relaybox_internal.adoption_column_kind(relation, payload_column) = 'bytes' then
        payload_bytes := format('(relaybox_row).%I::pg_catalog.bytea', payload_column);
    else
        payload := relaybox_internal.adoption_text(relation, mapping -> 'payload');
    end if;
    if mapping ? 'headers' then
        headers := format('(relaybox_row).%I::pg_catalog.jsonb', mapping -> 'headers' ->> 'column');
        conditions := conditions || format(
            'coalesce(pg_catalog.jsonb_typeof(%s) operator(pg_catalog.=) ''object'', true)', headers
        );
        problems := problems || format('%s is no JSON object', quote_ident(mapping -> 'headers' ->> 'column'));
    end if;
    if mapping -> 'header' <> '{}' then
        headers := relaybox_internal.adoption_headers(relation, mapping);
    end if;
    conditions := conditions || array[
        format('coalesce(%s operator(pg_catalog.~) ''^[a-z0-9_.-]{1,48}$'', false)', topic),
        format('coalesce(%s operator(pg_catalog.~) ''^[A-Za-z0-9_.:-]{1,48}$'', false)', sender),
        format('coalesce(pg_catalog.length(%s) operator(pg_catalog.<=) 200, true)', key),
        case
            when payload_column is not null then format('(relaybox_row).%I is not null', payload_column)
            else format('%s is not null', payload)
        end,
        format(
            'coalesce(pg_catalog.octet_length(%s) operator(pg_catalog.<=) 16777216, true)',
            case when payload_bytes like 'null%' then payload else payload_bytes end
        ),
        format('coalesce(pg_catalog.octet_length(%s::pg_catalog.text) operator(pg_catalog.<=) 65536, true)', headers)
    ];
    if mapping ? 'headers' or mapping -> 'header' <> '{}' then
        -- as accepts_message() refuses them
        conditions := conditions || format(
            'not coalesce(pg_catalog.jsonb_path_exists(%1$s, %2$L) or pg_catalog.jsonb_path_exists(%1$s, %3$L), false)',
            headers, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")', 'strict $.** ? (@.abs() >= 1e308)'
        );
    end if;
    foreach time_header in array time_headers loop
        conditions := conditions || format(
            'coalesce(pg_catalog.jsonb_typeof(%1$s operator(pg_catalog.->) %2$L) operator(pg_catalog.=) ''number'' '
            'and not pg_catalog.jsonb_path_exists(%1$s, %3$L), true)',
            headers, time_header, format('$.%s ? (@ < 0 || @ > 253402300799)', to_json(time_header))
        );
    end loop;
    if cardinality(time_headers) = 2 then
        conditions := conditions || format(
            'not coalesce(pg_catalog.jsonb_path_exists(%s, %L), false)',
            headers, '$ ? (@."relaybox-deliver-after" >= @."relaybox-expires-at")'
        );
    end if;
    problems := problems || array[
        'topic is null, or not 1 to 48 of a-z 0-9 _ . -',
        'sender is null, or not 1 to 48 of A-Z a-z 0-9 _ . : -',
        'key has more than 200 characters', 'payload is null', 'payload has more than 16 MiB',
        'headers have more than 64 KiB'
    ];
    if mapping ? 'headers' or mapping -> 'header' <> '{}' then
        problems := problems || 'headers have a number of 1e308 or more, or nest more than 64 levels'::text;
    end if;
    foreach time_header in array time_headers loop
        problems := problems || format('header %s is no number of seconds since 1970', time_header);
    end loop;
    if cardinality(time_headers) = 2 then
        problems := problems || 'the message expires before it may be delivered'::text;
    end if;
    return format(
        'select %s as message_id, %s as topic, %s as sender, %s as key, %s as headers, %s as payload, '
        '%s as payload_bytes, %s as is_good, case %s end as problem',
        message_id, topic, sender, key, headers, payload, payload_bytes,
        array_to_string(conditions, ' and '),
        (
            select string_agg(format('when not (%s) then %L::pg_catalog.text', c.condition, c.problem), ' ' order by c.place)
            from unnest(conditions, problems) with ordinality c (condition, problem, place)
        )
    );
end
$$;
