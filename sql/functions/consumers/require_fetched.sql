-- Refuses a place that is not among what the newest fetch of a lane gave and nobody has acknowledged. Raises RB033.
create or replace function relaybox.require_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint) returns void
language plpgsql stable
as $$
declare
    lane_name text := format('subscription %s, lane %s', known.subscription, c.lane);
    rest text := case
        when c.worker is null then format('the lane is acknowledged through place %s', c.done_place)
        when c.redrive_place is not null then format('still to acknowledge: redriven dead letters up to place %s', c.redrive_place)
        else format('still to acknowledge: places %s to %s', c.done_place + 1, c.fetched_place)
    end;
begin
    if c.worker is not null and place_ <= coalesce(c.redrive_place, c.fetched_place) and (c.redrive_place is not null or place_ > c.done_place) then
        return;
    end if;
    if place_ between 1 and c.done_place and (c.worker is null or c.redrive_place is null) then
        raise exception using errcode = 'RB033',
            message = format(
                '%s: place %s is acknowledged already; the lane is acknowledged through place %s', lane_name, place_, c.done_place
            ),
            hint = 'Roll back: this work is done. A repeated acknowledgement is refused, so that no work is done twice. '
                || case when c.worker is null then 'Then fetch what comes next.' else format('Then go on: %s.', rest) end;
    elsif c.worker is null and (c.fetched_place > c.done_place or c.redrive_place is not null) then
        raise exception using errcode = 'RB033',
            message = format('%s: this fetch ended with a nack or release; its other messages come with the next fetch', lane_name),
            hint = 'Roll back and fetch again. Acknowledge what is done before you refuse a message or give the lane back.';
    end if;
    raise exception using errcode = 'RB033',
        message = format('%s: place %s was not in this fetch; %s', lane_name, coalesce(place_::text, 'null'), rest),
        hint = 'Give the place of a message that this fetch returned: that of the last one whose work is done.';
end
$$;
