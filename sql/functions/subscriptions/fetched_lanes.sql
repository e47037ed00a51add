-- The lanes from which this transaction has fetched, if nothing has ended the fetch. The number of
-- a transaction alone proves nothing: after a dump and reload another one may have it. The cursor's
-- row proves it: we see the row although its transaction has not committed.
create or replace function relaybox_internal.fetched_lanes(
    subscription_ relaybox_internal.subscription
)
returns integer[]
language sql volatile
as $$
    select array(
        select k.lane
        from relaybox_internal.lane_cursors k
        join relaybox_internal.cursor c
            on c.subscription_id = k.subscription_id and c.lane = k.lane and c.version = k.version
        cross join lateral (
            select (
                c.xmin::text::bigint - k.fetched_in::text::bigint % 4294967296 + 4294967296
            ) % 4294967296
        ) as later (by)
        where k.subscription_id = subscription_.subscription_id
            and k.fetched_in = pg_current_xact_id_if_assigned()
            -- a savepoint has a later number than its transaction; xmin is that number modulo 2^32
            and case
                when later.by < 2147483648
                    then pg_xact_status(
                        (k.fetched_in::text::bigint + later.by)::text::xid8
                    ) = 'in progress'
            end
        order by k.lane
    )
$$;
