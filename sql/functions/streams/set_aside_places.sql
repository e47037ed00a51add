-- The places of a range that a subscription does not read: set aside, and not redriven since.
create or replace function relaybox.set_aside_places(known relaybox.subscription, after_place bigint, bound_place bigint) returns bigint[]
language sql stable
as $$
    select array(
        select d.place from relaybox.dead_letter d
        where d.subscription_id in (known.subscription_id, known.replay_of)
            and d.place > after_place and d.place <= bound_place and d.state <> 'redriven'
    )
$$;
