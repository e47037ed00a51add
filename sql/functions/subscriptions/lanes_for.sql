-- The lanes that may have something for a worker: first those where it has unacknowledged messages,
-- then the others, the one that moved longest ago first.
create or replace function relaybox_internal.lanes_for(
    subscription_ relaybox_internal.subscription, worker_ text
)
returns table (lane integer)
language sql volatile
as $$
    select c.lane
    from relaybox_internal.lane_cursors c
    where c.subscription_id = subscription_.subscription_id
        and (
            c.worker is null or c.worker = worker_
            or not relaybox_internal.has_time_left(c.leased_until, subscription_.lease_seconds)
        )
    order by c.worker is distinct from worker_, c.moved_at
$$;
