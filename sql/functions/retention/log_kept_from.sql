-- The first position of a log whose message is here, or in files from which it may come back.
create or replace function relaybox_internal.log_kept_from(log_id_ integer) returns bigint
language sql stable
as $$
    select least(i.first_kept_position, (
        select min(d.first) from relaybox_internal.detached_segment d
        where d.log_id = log_id_ and d.state = 'detached'
    ))
    from relaybox_internal.hop_in i where i.log_id = log_id_
$$;
