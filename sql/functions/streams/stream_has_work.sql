-- Returns whether a log has published batches that its stream has not decided on, or a stalled
-- sender that can go on.
create or replace function relaybox_internal.stream_has_work(log_id_ integer) returns boolean
language sql stable
as $$
    select coalesce(bool_or(
        i.published_batch > l.decided_batch or s.recheck
        or relaybox_internal.has_sender_to_resume(s.stream_id, l.origin)
    ), true)
    from relaybox_internal.hop_in i
    left join relaybox_internal.stream_log l on l.log_id = i.log_id
    left join relaybox_internal.stream s on s.stream_id = l.stream_id
    where i.log_id = log_id_
$$;
