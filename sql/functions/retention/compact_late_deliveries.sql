-- Removes the times of late deliveries that are older than every decision of the stream that is
-- left, and keeps the newest of them as the compacted time of a log. Caller holds the stream.
create or replace function relaybox_internal.compact_late_deliveries(
    stream_id_ integer, log_id_ integer
)
returns void
language sql volatile
as $$
    with removed as (
        delete from relaybox_internal.late_delivery r
        where r.stream_id = stream_id_ and r.delivered_at <= (
            select min(oldest.decided_at)
            from relaybox_internal.stream_log l
            cross join lateral (
                select d.decided_at from relaybox_internal.decision d
                where d.log_id = l.log_id order by d.decided_at limit 1
            ) oldest
            where l.stream_id = stream_id_
        )
        returning r.delivered_at
    )
    update relaybox_internal.stream_log l
    set compacted_decided_at = greatest(l.compacted_decided_at, newest.delivered_at)
    from (select max(r.delivered_at) as delivered_at from removed r) newest
    where l.log_id = log_id_ and newest.delivered_at is not null;
$$;
