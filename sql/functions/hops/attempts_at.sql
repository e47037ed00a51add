-- How often a subscription has refused the message at a place so far.
create or replace function relaybox.attempts_at(known relaybox.subscription, place_ bigint) returns integer
language sql stable
as $$
    select coalesce(max(f.attempts), 0) from relaybox.failed_attempt f where f.subscription_id = known.subscription_id and f.place = place_
$$;
