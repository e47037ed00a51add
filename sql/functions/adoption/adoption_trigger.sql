-- Returns what follows the name of a trigger function in `create function`: it sends the rows that a
-- statement has inserted, or lets them wait behind a backlog. `hides_rows`: no JSON is made of a row
-- (runs_foreign_code). `of_parts`: for the partitions of the table. Their columns may stand in another
-- order, so the row of the table is made of them by name (part_row), when the trigger runs.
create or replace function relaybox_internal.adoption_trigger(
    adopted relaybox_internal.adopted_table, of_parts boolean, hides_rows boolean
)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    is_whole constant boolean := adopted.mapping -> 'payload' ? 'row';
    source constant text := format(
        case
            when not is_whole then 'new_rows relaybox_row cross join lateral relaybox_internal.message_of_row_%1$s(%2$s) m'
            else 'new_rows relaybox_row cross join lateral relaybox_internal.message_of_whole_%1$s('
                '%2$s, pg_catalog.to_jsonb(%2$s) operator(pg_catalog.-) %3$s) m'
        end,
        adopted.adoption_id, case when of_parts then '{row}' else 'relaybox_row' end,
        -- the variable of the function, whatever columns the table has
        case when of_parts then '{lacks}' else 'sending.lacks' end
    )
    -- what the outbox would refuse by its schema is set aside too; a backlog is checked when it moves
    || case
        when adopted.on_unmapped <> 'set_aside' then ''
        when adopted.state = 'backlog' then ' cross join (select null::text as refusal) r'
        else ' cross join lateral (select case when m.is_good then relaybox_internal.outbox_refusal('
            'm.topic, m.headers, m.payload, m.payload_bytes) end as refusal) r'
    end;
    is_aside constant boolean := adopted.on_unmapped = 'set_aside';
    statements text[] := '{}';
    body text;
begin
    -- a sender that the row names: bound roles are asked for, as at the outbox
    if
        adopted.mapping -> 'sender' ? 'column'
        or jsonb_path_exists(adopted.mapping, '$.sender.parts[*].column')
    then
        statements := statements || format(
            E'perform relaybox_internal.require_sender_role(s.sender)\n'
            '    from (select distinct m.sender from %s where m.is_good) s', source
        );
    end if;
    statements := statements || format(
        E'insert into %s\n    select %s, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes\n'
        '    from %s\n    where %s',
        case adopted.state
            when 'backlog' then 'relaybox_internal.adopted_row '
                '(adoption_id, message_id, topic, sender, key, headers, payload, payload_bytes)'
            else 'relaybox.outbox (message_id, topic, sender, key, headers, payload, payload_bytes)'
        end,
        case adopted.state when 'backlog' then adopted.adoption_id || ', ' else '' end
        || case when adopted.mapping ? 'message_id' then 'm.message_id' else 'relaybox.new_message_id()' end,
        source,
        case
            when is_aside then 'm.is_good and r.refusal is null'
            else format(
                'case when m.is_good then true else relaybox_internal.refuse_row(%s, %s, %s) end',
                adopted.adoption_id,
                case when hides_rows then 'null' else 'row_to_json(relaybox_row)::text' end,
                -- else refuse_row() asks for it: a good row does not pay for the text
                case when hides_rows or of_parts or adopted.mapping -> 'payload' ? 'row' then 'm.problem' else 'null' end
            )
        end
    );
    if is_aside then
        statements := statements || format(
            E'insert into relaybox_internal.unmapped_row (adoption_id, problem, content)\n'
            '        select %s, coalesce(r.refusal, m.problem), row_to_json(relaybox_row)::text\n        from %s\n'
            '        where not m.is_good or r.refusal is not null',
            adopted.adoption_id, source
        );
    end if;
    if of_parts then
        statements := array(
            select format(
                E'execute replace(%s,\n        \'{row}\', own_row\n    )',
                case
                    when is_whole then format(
                        E'replace(\n        %L,\n        \'{lacks}\', quote_literal(lacks) || \'::pg_catalog.text[]\'\n    )',
                        regexp_replace(s.statement, '^perform ', 'select ')
                    )
                    else format(E'\n        %L', regexp_replace(s.statement, '^perform ', 'select '))
                end
            )
            from unnest(statements) with ordinality s (statement, place) order by s.place
        );
    end if;
    body := (
        select string_agg(
            case
                when is_aside and s.place = cardinality(statements) then format(
                    E'    get diagnostics sent = row_count;\n    if sent < (select count(*) from new_rows) then\n'
                    '        %s;\n    end if;\n', s.statement
                )
                else format(E'    %s;\n', s.statement)
            end, '' order by s.place
        )
        from unnest(statements) with ordinality s (statement, place)
    );
    return format(
        E'returns trigger language plpgsql security definer set search_path = pg_catalog, relaybox, pg_temp '
        -- who inserts must not change the text of a value
        'set timezone = ''UTC'' set datestyle = iso set intervalstyle = postgres set extra_float_digits = 1 '
        'set bytea_output = hex '
        'as $send$\n%sbegin\n%s    return null;\nend\n$send$',
        case when is_aside or of_parts or is_whole then E'<<sending>>\ndeclare\n' else '' end
        || case
            when is_whole
                then E'    lacks constant pg_catalog.text[] := relaybox_internal.virtual_columns(tg_relid);\n'
            else ''
        end
        || case when is_aside then E'    sent bigint;\n' else '' end
        || case
            when of_parts then format(
                E'    own_row constant text := relaybox_internal.part_row(%s, tg_relid::regclass);\n', adopted.adoption_id
            )
            else ''
        end,
        body
    );
end
$$;
