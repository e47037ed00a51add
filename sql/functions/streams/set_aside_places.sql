-- The places of a range that a subscription does not read: set aside, and not redriven since. What was set aside ahead of the cursor and
-- redriven since was read then: it is read again by a replay only.
create or replace function relaybox.set_aside_places(known relaybox.subscription, after_place bigint, bound_place bigint) returns bigint[]
language sql stable
as $$
    select array(
        select d.place from relaybox.dead_letter d
        where d.subscription_id in (known.subscription_id, known.replay_of)
            and d.place > after_place and d.place <= bound_place
            and (d.state <> 'redriven' or d.subscription_id = known.subscription_id and d.place > (
                select c.replay_place from relaybox.lane_cursors c where c.subscription_id = d.subscription_id and c.lane = d.lane
            ))
    )
$$;
