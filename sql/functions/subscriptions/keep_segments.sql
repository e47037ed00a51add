-- Locks a log in ACCESS SHARE mode until the transaction ends: retention drops none of its segments
-- meanwhile. Waits for a drop that holds the log or waits for it. A later statement of the caller
-- sees what is here. Works in read-only transactions and on standbys.
create or replace function relaybox_internal.keep_segments(log_id_ integer) returns void
language plpgsql volatile
as $$
begin
    execute format(
        'lock table only relaybox_internal.log_%s in access share mode', log_id_
    );
end
$$;
