-- Locks the stream that reads a log FOR NO KEY UPDATE and returns it. Raises RB004 (the log's
-- stream is not registered), RB007 (an init is changing the stream's rules).
create or replace function relaybox_internal.lock_stream(log_id_ integer)
returns relaybox_internal.stream
language plpgsql volatile
as $$
declare
    stream_ relaybox_internal.stream;
begin
    select s.* into stream_
    from relaybox_internal.stream s
    join relaybox_internal.stream_log l using (stream_id)
    where l.log_id = log_id_
    for no key update of s;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('log %s belongs to no stream', log_id_),
            hint = 'Run: relaybox init';
    end if;
    perform relaybox_internal.refuse_pending_rules(stream_);
    return stream_;
end
$$;
