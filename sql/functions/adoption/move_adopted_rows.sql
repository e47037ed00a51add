-- Moves the next messages of a backlog, and those that came behind it, into the outbox, in their
-- order. Each is moved once: it is gone from here if and only if it is there. A message that the
-- outbox refuses goes to the unmapped rows, with the reason, and stops no other one. Returns how many
-- it took from here. Locks the record, so that two that move do it in turn.
create or replace function relaybox_internal.move_adopted_rows(adoption_id_ integer, most integer)
returns bigint
language plpgsql volatile
-- without statistics the planner would read and sort all that waits, for each batch
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    last_number bigint;
    moved bigint := 0;
    one relaybox_internal.adopted_row;
    broken_rule text;
begin
    perform from relaybox_internal.adopted_table a where a.adoption_id = adoption_id_ for update;
    -- a range of the key: a list of keys would be joined by loops where the statistics are of an empty table
    select max(o.row_number) into last_number from (
        select w.row_number from relaybox_internal.adopted_row w
        where w.adoption_id = adoption_id_
        order by w.row_number
        limit most
    ) o;
    begin
        with taken as (
            delete from relaybox_internal.adopted_row w
            where w.adoption_id = adoption_id_ and w.row_number <= last_number
            returning w.*
        )
        insert into relaybox.outbox (message_id, topic, sender, key, headers, payload, payload_bytes)
        select t.message_id, t.topic, t.sender, t.key, t.headers, t.payload, t.payload_bytes
        from taken t
        order by t.row_number;
        get diagnostics moved = row_count;
        return moved;
    exception when data_exception or integrity_constraint_violation or raise_exception then
        -- which one it is, is found below
        moved := 0;
    end;
    for one in
        select w.* from relaybox_internal.adopted_row w
        where w.adoption_id = adoption_id_ and w.row_number <= last_number
        order by w.row_number
    loop
        begin
            insert into relaybox.outbox (message_id, topic, sender, key, headers, payload, payload_bytes)
            values (one.message_id, one.topic, one.sender, one.key, one.headers, one.payload, one.payload_bytes);
        exception when data_exception or integrity_constraint_violation or raise_exception then
            get stacked diagnostics broken_rule = constraint_name;
            if sqlstate = '23514' and broken_rule = '' then -- no segment takes it: that is not the row's fault
                raise;
            end if;
            insert into relaybox_internal.unmapped_row (adoption_id, problem, content, is_message)
            values (adoption_id_, format('the outbox refused it: %s (%s)', sqlerrm, sqlstate), row_to_json(one)::text, true);
        end;
        delete from relaybox_internal.adopted_row w
        where w.adoption_id = adoption_id_ and w.row_number = one.row_number;
        moved := moved + 1;
    end loop;
    return moved;
end
$$;
