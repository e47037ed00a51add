-- Refuses a word about a message from whoever has not fetched it. Raises RB033; RB035 if another worker took the lane over.
create or replace function relaybox.require_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint, worker_ text) returns void
language plpgsql stable
as $$
begin
    if c.worker <> worker_ then
        raise exception using errcode = 'RB035',
            message = format(
                'subscription %s, lane %s: worker %s has lost the lane, worker %s fetched after the lease had ended',
                known.subscription, c.lane, worker_, c.worker
            ),
            hint = 'Roll back and fetch again. Longer work needs a longer lease_seconds, or smaller fetches.';
    end if;
    if c.worker is null or place_ is null or place_ > coalesce(c.redrive_place, c.fetched_place) or (c.redrive_place is null and place_ <= c.done_place) then
        raise exception using errcode = 'RB033',
            message = format(
                'subscription %s, lane %s: place %s is not among what worker %s has fetched and not acknowledged: %s',
                known.subscription, c.lane, coalesce(place_::text, 'null'), worker_,
                case
                    when c.worker is null then format('nothing; the lane is done through place %s', c.done_place)
                    when c.redrive_place is not null then format('redriven dead letters up to place %s', c.redrive_place)
                    else format('places %s to %s', c.done_place + 1, c.fetched_place)
                end
            ),
            hint = 'Fetch first, acknowledge what came. An acknowledgement that is repeated is refused, so that its work is not done twice.';
    end if;
end
$$;
