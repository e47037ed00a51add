-- Refuses a place that is not among what the newest fetch of a lane gave and nobody has acknowledged. Raises RB033.
create or replace function relaybox.require_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint) returns void
language plpgsql stable
as $$
begin
    if c.worker is null or place_ is null or place_ > coalesce(c.redrive_place, c.fetched_place) or (c.redrive_place is null and place_ <= c.done_place) then
        raise exception using errcode = 'RB033',
            message = format('subscription %s, lane %s: ', known.subscription, c.lane) || case
                when place_ between 1 and c.done_place and (c.worker is null or c.redrive_place is null)
                    then format('place %s is acknowledged already; the lane is acknowledged through place %s', place_, c.done_place)
                when c.worker is null and (c.fetched_place > c.done_place or c.redrive_place is not null)
                    then 'this fetch ended with a nack or release; its other messages come with the next fetch'
                else format('place %s was not in this fetch; ', coalesce(place_::text, 'null')) || case
                    when c.worker is null then format('the lane is acknowledged through place %s', c.done_place)
                    when c.redrive_place is not null then format('still to acknowledge: redriven dead letters up to place %s', c.redrive_place)
                    else format('still to acknowledge: places %s to %s', c.done_place + 1, c.fetched_place)
                end
            end,
            hint = 'Fetch first, acknowledge what came. An acknowledgement that is repeated is refused, so that its work is not done twice.';
    end if;
end
$$;
