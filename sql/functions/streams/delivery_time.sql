-- Returns the time to record for what a stream delivers now: the store's clock, but never a time
-- before those recorded for earlier stream positions. Caller holds the stream's row.
create or replace function relaybox_internal.delivery_time(stream_id_ integer) returns timestamptz
language sql volatile
set enable_seqscan = off
as $$
    select greatest(
        clock_timestamp(),
        (
            select max(newest.decided_at)
            from relaybox_internal.stream_log l
            cross join lateral (
                select k.decided_at from relaybox_internal.decision k where k.log_id = l.log_id
                order by k.decided_at desc limit 1
            ) newest
            where l.stream_id = stream_id_
        ),
        (
            select max(l.compacted_decided_at)
            from relaybox_internal.stream_log l where l.stream_id = stream_id_
        ),
        (
            select max(r.delivered_at)
            from relaybox_internal.late_delivery r where r.stream_id = stream_id_
        )
    )
$$;
