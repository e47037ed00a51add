-- Returns what follows the name of a trigger function in `create function`: it sends the rows that a
-- statement has inserted, or lets them wait behind a backlog. `message`: the call that makes the
-- message of a row `relaybox_row`. `hides_rows`: no JSON is made of a row (runs_foreign_code).
create or replace function relaybox_internal.adoption_trigger(
    adopted relaybox_internal.adopted_table, message text, hides_rows boolean
)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    source constant text := format('new_rows relaybox_row cross join lateral relaybox_internal.%s m', message);
    is_aside constant boolean := adopted.on_unmapped = 'set_aside';
    body text := '';
begin
    -- a sender that the row names: bound roles are asked for, as at the outbox
    if
        adopted.mapping -> 'sender' ? 'column'
        or jsonb_path_exists(adopted.mapping, '$.sender.parts[*].column')
    then
        body := format(
            E'    perform relaybox_internal.require_sender_role(s.sender)\n'
            '    from (select distinct m.sender from %s where m.is_good) s;\n', source
        );
    end if;
    body := body || format(
        E'    insert into %s\n    select %s, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes\n'
        '    from %s\n    where %s;\n',
        case adopted.state
            when 'backlog' then 'relaybox_internal.adopted_row '
                '(adoption_id, message_id, topic, sender, key, headers, payload, payload_bytes)'
            else 'relaybox.outbox (message_id, topic, sender, key, headers, payload, payload_bytes)'
        end,
        case adopted.state when 'backlog' then adopted.adoption_id || ', ' else '' end
        || case when adopted.mapping ? 'message_id' then 'm.message_id' else 'relaybox.new_message_id()' end,
        source,
        case
            when is_aside then 'm.is_good'
            else format(
                'case when m.is_good then true else relaybox_internal.refuse_row(%s, %s) end',
                adopted.adoption_id,
                case when hides_rows then 'null, m.problem' else 'row_to_json(relaybox_row)::text' end
            )
        end
    );
    if is_aside then
        body := body || format(
            E'    get diagnostics sent = row_count;\n    if sent < (select count(*) from new_rows) then\n'
            '        insert into relaybox_internal.unmapped_row (adoption_id, problem, content)\n'
            '        select %s, m.problem, row_to_json(relaybox_row)::text\n        from %s\n        where not m.is_good;\n    end if;\n',
            adopted.adoption_id, source
        );
    end if;
    return format(
        E'returns trigger language plpgsql security definer set search_path = pg_catalog, relaybox, pg_temp%s '
        'as $send$\n%sbegin\n%s    return null;\nend\n$send$',
        case when adopted.mapping -> 'payload' ? 'row' then ' set timezone = ''UTC''' else '' end,
        case when is_aside then E'declare\n    sent bigint;\n' else '' end,
        body
    );
end
$$;
