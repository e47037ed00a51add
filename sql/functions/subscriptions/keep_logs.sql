-- Locks all logs of a stream as keep_segments() does, in the order of their numbers, and returns
-- their numbers.
create or replace function relaybox_internal.keep_logs(stream_id_ integer) returns integer[]
language plpgsql volatile
as $$
declare
    log_ids integer[] := array(
        select l.log_id from relaybox_internal.stream_log l
        where l.stream_id = stream_id_ order by l.log_id
    );
    log_id_ integer;
begin
    foreach log_id_ in array log_ids loop
        perform relaybox_internal.keep_segments(log_id_);
    end loop;
    return log_ids;
end
$$;
