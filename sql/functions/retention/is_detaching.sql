-- Whether this attempt is the one that detaches a segment. Locks the segment's row: another attempt
-- waits until the transaction ends.
create or replace function relaybox_internal.is_detaching(
    log_id_ integer, first_ bigint, attempt_ integer
)
returns boolean
language plpgsql volatile
as $$
begin
    perform from relaybox_internal.detached_segment d
    where
        d.log_id = log_id_ and d.first = first_
        and d.state = 'detaching' and d.attempt = attempt_
    for update;
    return found;
end
$$;
