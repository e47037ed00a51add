-- The places of a range that a subscription's cursor does not give: set aside and not redriven since, or redriven and acknowledged in this
-- pass before the cursor came there.
create or replace function relaybox.set_aside_places(known relaybox.subscription, after_place bigint, bound_place bigint) returns bigint[]
language sql stable
as $$
    select array(
        select d.place from relaybox.dead_letter d
        where d.subscription_id in (known.subscription_id, known.replay_of)
            and d.place > after_place and d.place <= bound_place
            and (d.state <> 'redriven' or d.given_ahead and d.subscription_id = known.subscription_id)
    )
$$;
