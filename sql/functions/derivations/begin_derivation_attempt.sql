-- Fetches the next messages of a derivation, at most max_count, and records the attempt that derives
-- from them: no row if there are none. Of a larger fetch that was not acknowledged it takes the
-- first. Ends the open attempt: its token is old now, so it can't publish. Locks the row of the
-- derivation, the open attempt, and the lane of its subscription. Raises RB031 if somebody ended the subscription, RB035
-- if somebody else has fetched from it, and what relaybox.fetch() raises.
create or replace function relaybox_internal.begin_derivation_attempt(
    derivation_id_ integer, max_count integer, begun_by_ text
)
returns setof relaybox_internal.derivation_attempt
language plpgsql volatile
as $$
declare
    subscribed relaybox_internal.subscription;
    lane_cursor relaybox_internal.cursor;
    positions int8multirange;
begin
    perform from relaybox_internal.derivation d
    where d.derivation_id = derivation_id_ for no key update;
    subscribed := relaybox_internal.subscription_of_derivation(derivation_id_);
    -- the attempt before the lane, as the task that publishes locks them
    update relaybox_internal.derivation_attempt a set
        state = 'superseded', ended_at = clock_timestamp()
    where a.derivation_id = derivation_id_ and a.state = 'open';
    lane_cursor := relaybox_internal.take_lane(
        subscribed, max_count, null, null, 1, 'derivation'
    );
    if lane_cursor.worker is null then
        return;
    end if;
    positions := relaybox_internal.first_positions(
        relaybox_internal.fetched_positions(subscribed, lane_cursor), max_count
    );
    return query
    insert into relaybox_internal.derivation_attempt (
        derivation_id, attempt, token, stream_positions, message_count, begun_by
    )
    select
        derivation_id_, coalesce((
            select max(a.attempt) from relaybox_internal.derivation_attempt a
            where a.derivation_id = derivation_id_
        ), 0) + 1, lane_cursor.token, positions, (
            select sum(upper(r) - lower(r)) from unnest(positions) r
        ), begun_by_
    returning *;
end
$$;
