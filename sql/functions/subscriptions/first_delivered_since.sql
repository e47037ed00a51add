-- The first stream position of a stream that was delivered at a time or later, kept or not: after
-- the last one that a decision or a compacted ledger puts before that time, and not after a late
-- delivery since then. Each log and the late deliveries are one look-up in an index.
create or replace function relaybox_internal.first_delivered_since(
    stream_id_ integer, since timestamptz
)
returns bigint
language sql stable
as $$
    select least(
        (
            select 1 + coalesce(max(greatest(
                before.last_stream_position,
                case
                    when l.compacted_decided_at < since then l.compacted_stream_position
                end
            )), 0)
            from relaybox_internal.stream_log l
            left join lateral (
                select d.last_stream_position from relaybox_internal.decision d
                where d.log_id = l.log_id and d.decided_at < since
                order by d.decided_at desc, d.last_stream_position desc
                limit 1
            ) before on true
            where l.stream_id = stream_id_
        ),
        1 + (
            select late.after_stream_position from relaybox_internal.late_delivery late
            where late.stream_id = stream_id_ and late.delivered_at >= since
            order by late.delivered_at, late.after_stream_position
            limit 1
        )
    )
$$;
