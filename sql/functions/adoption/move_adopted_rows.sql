-- Moves the next messages of a backlog, and those that came behind it, into the outbox, in their
-- order. Returns how many. Each is moved once: it is gone from here if and only if it is there.
-- Locks the record, so that two that move do it in turn.
create or replace function relaybox_internal.move_adopted_rows(adoption_id_ integer, most integer)
returns bigint
language plpgsql volatile
as $$
declare
    last_number bigint;
    moved bigint;
begin
    perform from relaybox_internal.adopted_table a where a.adoption_id = adoption_id_ for update;
    -- a range of the key: a list of keys would be joined by loops where the statistics are of an empty table
    select max(o.row_number) into last_number from (
        select w.row_number from relaybox_internal.adopted_row w
        where w.adoption_id = adoption_id_
        order by w.row_number
        limit most
    ) o;
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
end
$$;
