-- Of a stream whose logs are all detached for stopped consumers: the last stream position that is
-- older than the replay window, and how many seconds a consumer must have been stopped. Else no
-- row.
create or replace function relaybox_internal.detachable_through(stream_ integer)
returns table (after_seconds bigint, last_stream_position bigint)
language sql stable
as $$
    select max(i.detach_after_seconds), max((
        select k.last_stream_position from relaybox_internal.decision k
        where
            k.log_id = i.log_id
            and k.decided_at <= now() - make_interval(secs => i.replay_window_seconds)
        order by k.decided_at desc limit 1
    ))
    from relaybox_internal.stream_log l
    join relaybox_internal.hop_in i on i.log_id = l.log_id
    where l.stream_id = stream_
    having bool_and(i.stopped_consumer = 'detach')
$$;
