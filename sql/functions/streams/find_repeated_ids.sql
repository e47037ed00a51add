-- Rows of a range of a log whose message_id stands among the `within` positions before them; their senders are looked at one by one.
create or replace function relaybox.find_repeated_ids(log_id integer, first_position bigint, last_position bigint, within bigint) returns void
language sql volatile
set work_mem = '64MB'
as $$
    insert into pg_temp.repeated_id ("position", original_position)
    select l.position, min(o.position)
    from relaybox.log l
    join relaybox.log o on o.hop_id = log_id and o.message_id = l.message_id
        and o.position >= first_position - within and o.position <= last_position
        and o.position < l.position and o.position >= l.position - within
    where l.hop_id = log_id and l.position >= first_position and l.position <= last_position
    group by l.position;
    update pg_temp.decision_sender b set is_ascending = false, is_in_order = false
    from relaybox.log l join pg_temp.repeated_id i on i.position = l.position
    where l.hop_id = log_id and l.sender = b.sender and l.epoch = b.epoch;
$$;
