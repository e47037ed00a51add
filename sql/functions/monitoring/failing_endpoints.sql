-- The endpoints of open subscriptions that take no message now, the longest failing first. Waiting
-- are stream positions that the slowest lane has not done, of all topics of the stream.
create or replace function relaybox_internal.failing_endpoints()
returns table (
    subscription text, stream text, endpoint text, failing_since timestamptz, failure_count bigint,
    retry_at timestamptz, reason text, waiting_count bigint
)
language sql stable
as $$
    select
        n.subscription, s.stream, f.endpoint, f.failing_since, f.failure_count,
        f.failed_at + make_interval(secs => f.pause_seconds), f.reason, s.stream_positions_behind
    from relaybox_internal.endpoint_failure f
    join relaybox_internal.subscription n
        on n.subscription_id = f.subscription_id and n.ended_at is null
    join relaybox.subscriptions s on s.subscription = n.subscription
    order by f.failing_since, n.subscription
$$;
