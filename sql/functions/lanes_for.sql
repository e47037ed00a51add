-- The lanes that may have something for a worker: those where it has unacknowledged messages, then the one that was moved longest ago.
create or replace function relaybox.lanes_for(known relaybox.subscription, worker_ text) returns table (lane integer)
language sql volatile
as $$
    select l.lane
    from relaybox.lane l
    join lateral (
        select c.* from relaybox.cursor c
        where c.subscription_id = l.subscription_id and c.lane = l.lane
        order by c.version desc
        limit 1
    ) c on true
    where l.subscription_id = known.subscription_id
        and (c.worker is null or c.worker = worker_ or c.leased_until <= clock_timestamp())
    order by c.worker is distinct from worker_, c.moved_at
$$;
