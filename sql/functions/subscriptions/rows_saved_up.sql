-- How many messages the rate of a replay allows a lane now: its share of the rate for the time
-- since its last fetch, at most that of one second and at least one message. May be a fraction. A
-- last fetch in the future, of a clock that was ahead, counts as one a second ago.
create or replace function relaybox_internal.rows_saved_up(
    lane_cursor relaybox_internal.cursor, subscription relaybox_internal.subscription,
    asked_at timestamptz
)
returns numeric
language sql stable
as $$
    select least(
        extract(epoch from asked_at - case
            when lane_cursor.rate_from <= asked_at then lane_cursor.rate_from
            else asked_at - interval '1 second'
        end) * subscription.rows_per_second / subscription.lanes,
        greatest(subscription.rows_per_second / subscription.lanes, 1)
    )
$$;
