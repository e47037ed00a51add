-- Finds the rows of a range of a log whose message_id their sender has also given to one of the
-- `within` positions before them. An id of another sender is another id: ids may be predictable, and
-- no sender may drop a message of another one. The senders are not in order: their messages are
-- classified one by one. A log has one origin, so that its senders are those of one store.
create or replace function relaybox_internal.find_repeated_ids(
    log_id_ integer, first_position bigint, last_position bigint, within bigint
)
returns void
language sql volatile
set work_mem = '64MB'
as $$
    insert into pg_temp.repeated_id (log_position, original_position)
    select l.log_position, min(o.log_position)
    from relaybox_internal.log l
    join relaybox_internal.log o on o.log_id = log_id_ and o.message_id = l.message_id
        and o.sender = l.sender and o.log_position >= first_position - within and o.log_position <= last_position
        and o.log_position < l.log_position and o.log_position >= l.log_position - within
    where l.log_id = log_id_ and l.log_position >= first_position
        and l.log_position <= last_position
    group by l.log_position;
    update pg_temp.decision_sender b set is_ascending = false, is_in_order = false
    from relaybox_internal.log l join pg_temp.repeated_id i on i.log_position = l.log_position
    where l.log_id = log_id_ and l.sender = b.sender and l.epoch = b.epoch;
$$;
