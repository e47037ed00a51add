-- The place that every lane of a second cursor is done through; null if it was closed.
create or replace function relaybox.replayed_through(cursor_id integer) returns bigint
language sql stable
as $$
    select min(newest.done_place)
    from relaybox.lane l
    join lateral (
        select k.done_place from relaybox.cursor k
        where k.subscription_id = l.subscription_id and k.lane = l.lane
        order by k.version desc
        limit 1
    ) newest on true
    where l.subscription_id = cursor_id
$$;
