-- Tries the unmapped rows of an adopted table again, with the map of now: sends those that
-- can be messages, in the order in which they were set aside, behind what was sent meanwhile.
-- Returns how many were sent and how many are left. Locks the record.
create or replace function relaybox_internal.send_unmapped(adoption_id_ integer)
returns table (sent_count bigint, left_count bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    adopted relaybox_internal.adopted_table;
begin
    select a.* into strict adopted from relaybox_internal.adopted_table a
    where a.adoption_id = adoption_id_
    for update;
    execute format(
        'with good as materialized ('
        'select u.unmapped_id, m.* from relaybox_internal.unmapped_row u '
        'cross join lateral relaybox_internal.message_of_json_%1$s(u.content::json) m '
        'where u.adoption_id = %1$s and m.is_good'
        '), gone as (delete from relaybox_internal.unmapped_row u using good g where u.unmapped_id = g.unmapped_id) '
        'insert into %2$s message_id, topic, sender, key, headers, payload, payload_bytes) '
        'select %3$s, g.topic, g.sender, g.key, g.headers, g.payload, g.payload_bytes from good g order by g.unmapped_id',
        adoption_id_,
        case adopted.state
            when 'backlog' then 'relaybox_internal.adopted_row (adoption_id, ' else 'relaybox.outbox ('
        end,
        case adopted.state when 'backlog' then adoption_id_ || ', ' else '' end
        || case when adopted.mapping ? 'message_id' then 'g.message_id' else 'relaybox.new_message_id()' end
    );
    get diagnostics sent_count = row_count;
    select count(*) into left_count from relaybox_internal.unmapped_row u where u.adoption_id = adoption_id_;
    return next;
end
$$;
