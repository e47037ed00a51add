-- Removes a stream that has decided nothing, if no log, skipped gap and subscription refers to it.
create or replace function relaybox_internal.remove_unused_stream(stream_id_ integer) returns void
language sql volatile
as $$
    delete from relaybox_internal.stream s
    where s.stream_id = stream_id_ and s.arrival_seq = 0
        and not exists (
            select from relaybox_internal.stream_log l where l.stream_id = s.stream_id
        )
        and not exists (select from relaybox_internal.skip k where k.stream_id = s.stream_id)
        and not exists (
            select from relaybox_internal.subscription n where n.stream_id = s.stream_id
        )
$$;
