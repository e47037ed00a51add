-- Tries the unmapped rows of an adopted table again, with the map of now: sends those that
-- can be messages, in the order in which they were set aside, behind what was sent meanwhile. One at a
-- time: a row that can't be read any more, or that the outbox refuses, stays with the reason, and
-- stops no other one. Returns how many were sent and how many are left. Locks the record.
create or replace function relaybox_internal.send_unmapped(adoption_id_ integer)
returns table (sent_count bigint, left_count bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- the text of values is that of the trigger (adoption_trigger), whatever the session says
set timezone = 'UTC'
set datestyle = iso
set intervalstyle = postgres
set extra_float_digits = 1
set bytea_output = hex
as $$
declare
    adopted relaybox_internal.adopted_table;
    mapped text[]; -- columns that a row must have
    lacking text;
    target text;
    sending text; -- of a row of the table
    sending_again text; -- of a message that the outbox has refused
    one record;
    reason text;
    broken_rule text;
    moved bigint;
begin
    select a.* into strict adopted from relaybox_internal.adopted_table a
    where a.adoption_id = adoption_id_
    for update;
    mapped := case
        when adopted.mapping -> 'payload' ? 'row'
            then array(select distinct m.column_name from relaybox_internal.mapped_columns(adopted.mapping) m)
        else relaybox_internal.columns_read(adoption_id_)
    end;
    target := format(
        'insert into %s message_id, topic, sender, key, headers, payload, payload_bytes) select %s',
        case adopted.state
            when 'backlog' then 'relaybox_internal.adopted_row (adoption_id, ' else 'relaybox.outbox ('
        end,
        case adopted.state when 'backlog' then adoption_id_ || ', ' else '' end
    );
    sending := format(
        '%s%s, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes '
        'from relaybox_internal.message_of_json_%s($1::json) m where m.is_good',
        target, case when adopted.mapping ? 'message_id' then 'm.message_id' else 'relaybox.new_message_id()' end,
        adoption_id_
    );
    sending_again := target || 'm.message_id, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes '
        'from json_populate_record(null::relaybox_internal.adopted_row, $1::json) m';
    sent_count := 0;
    for one in
        select u.unmapped_id, u.content, u.is_message from relaybox_internal.unmapped_row u
        where u.adoption_id = adoption_id_ order by u.unmapped_id
    loop
        reason := null;
        lacking := (
            select string_agg(quote_ident(c.name), ', ' order by c.name) from unnest(mapped) c (name)
            where c.name not in (select k.name from json_object_keys(one.content::json) k (name))
        );
        if lacking is not null and not one.is_message then
            reason := format('the row was set aside without column %s, which the map names', lacking);
        else
            begin
                execute case when one.is_message then sending_again else sending end using one.content;
                get diagnostics moved = row_count;
                if moved = 0 then
                    execute format('select m.problem from relaybox_internal.message_of_json_%s($1::json) m', adoption_id_)
                    into reason using one.content;
                end if;
            exception when others then
                get stacked diagnostics broken_rule = constraint_name;
                -- what is wrong with a row is its own; all else stops the command
                if sqlstate !~ '^(22|23|42)' or sqlstate in ('42501', '42883') or (sqlstate = '23514' and broken_rule = '') then
                    raise;
                end if;
                reason := format('%s (%s)', sqlerrm, sqlstate);
            end;
        end if;
        if reason is null then
            delete from relaybox_internal.unmapped_row u where u.unmapped_id = one.unmapped_id;
            sent_count := sent_count + 1;
        else
            update relaybox_internal.unmapped_row u set problem = reason
            where u.unmapped_id = one.unmapped_id and u.problem <> reason;
        end if;
    end loop;
    select count(*) into left_count from relaybox_internal.unmapped_row u where u.adoption_id = adoption_id_;
    return next;
end
$$;
