-- The first position of a log whose message is here, or in files from which it may come back.
create or replace function relaybox.log_kept_from(log_id integer) returns bigint
language sql stable
as $$
    select least(i.first_kept_position, (
        select min(d.first) from relaybox.detached_segment d where d.hop_id = log_id and d.state = 'detached'
    ))
    from relaybox.hop_in i where i.hop_id = log_id
$$;
