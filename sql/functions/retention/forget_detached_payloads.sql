-- Removes the references to large payloads of detached segments of a log that no consumer needs any
-- more. Caller: has released them, and holds lock_stream_and_hop(). Locks nothing else.
create or replace function relaybox_internal.forget_detached_payloads(log_id_ integer) returns void
language sql volatile
as $$
    delete from relaybox_internal.detached_payload p
    using relaybox_internal.detached_segment d
    where d.log_id = log_id_ and d.state = 'released'
        and p.log_id = d.log_id and p.log_position between d.first and d.last
$$;
