-- Ends a replay: a second cursor, given by its own name, is closed, and the name is free; lanes of a subscription that went back go on where
-- they had been, and its rate is no longer limited. Returns the name that was given.
-- Raises RB031, RB036 if nothing is being replayed, or without a reason.
create or replace function relaybox.cancel_replay(subscription text, reason text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(cancel_replay.subscription);
    lane_ integer;
    c relaybox.cursor;
    stood jsonb := '{}';
begin
    perform relaybox.require_reason(reason, 'a replay is cancelled', 'cancel_replay(subscription, ''why'')');
    if known.replay_of is not null then
        perform relaybox.unsubscribe(known.subscription, reason);
        return known.subscription;
    end if;
    -- the subscription before its lanes
    perform from relaybox.subscription s where s.subscription_id = known.subscription_id for no key update;
    for lane_ in 1..known.lanes loop
        c := relaybox.lock_lane(known, lane_);
        if c.done_place < c.replay_place then
            stood := stood || jsonb_build_object(lane_, c.done_place);
            perform relaybox.move_cursor(relaybox.cursor_at(c, c.replay_place));
        end if;
    end loop;
    if stood = '{}' then
        raise exception using errcode = 'RB036', message = format('subscription %s replays nothing', known.subscription),
            hint = coalesce((
                select format('A second cursor is cancelled by its own name: %s.', string_agg(n.subscription, ', ' order by n.subscription))
                from relaybox.subscription n where n.replay_of = known.subscription_id and n.ended_at is null
            ), 'Nothing was changed. What was replayed and cancelled: select * from relaybox.consumer_action.');
    end if;
    update relaybox.subscription s set rows_per_second = null where s.subscription_id = known.subscription_id;
    perform relaybox.record_action(known.subscription, 'cancel_replay', reason, jsonb_build_object('done_places', stood));
    return known.subscription;
end
$$;

comment on function relaybox.cancel_replay(text, text) is
'Ends a replay.
`subscription`: the name of a second cursor, which is closed; or a subscription whose lanes went back, which go on from their earlier places.
`reason`: recorded in relaybox.consumer_action.
Returns the name that was given.
Errors: RB031 (not subscribed), RB036 (no reason, or the subscription replays nothing).';
