-- The stream position at which a position of a log was delivered, and when. No row: it was not. A
-- run of stream positions records the time of its newest one; recorded times never go back in the
-- order of stream positions, so the first decision and the late deliveries tell the time.
create or replace function relaybox_internal.trace_stream_position(
    stream_id_ integer, log_id_ integer, log_position_ bigint
)
returns table (stream_position bigint, delivered_at timestamptz)
language sql stable
as $$
    select run.stream_position, coalesce(recorded.delivered_at, run.delivered_at)
    from (
        select
            d.first_stream_position + coalesce(
                array_position(d.log_positions, log_position_) - 1,
                log_position_ - d.first_position
            ) as stream_position,
            d.delivered_at
        from relaybox_internal.delivery d
        where d.stream_id = stream_id_ and d.log_id = log_id_ and (
            d.log_positions is null and log_position_ between d.first_position
            and d.first_position + d.last_stream_position - d.first_stream_position
            or log_position_ = any(d.log_positions)
        )
        limit 1
    ) run
    cross join lateral (
        select greatest(min(d.decided_at), (
            select max(late.delivered_at) from relaybox_internal.late_delivery late
            where late.stream_id = stream_id_
                and late.after_stream_position < run.stream_position
        )) as delivered_at
        from relaybox_internal.stream_log l
        join relaybox_internal.decision d on d.log_id = l.log_id
        where l.stream_id = stream_id_ and d.last_stream_position >= run.stream_position
    ) recorded
$$;
