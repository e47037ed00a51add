-- Ends a replay: a second cursor, given by its own name, is closed, and the name is free; lanes of a subscription that went back go on where
-- they had been, and its rate is no longer limited. Returns the name that was given.
-- Raises RB031, RB036 if nothing is being replayed, or without a reason.
create or replace function relaybox.cancel_replay(subscription text, reason text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    subscription_ relaybox_internal.subscription := relaybox_internal.subscription_named(cancel_replay.subscription);
    lane_ integer;
    cursor_ relaybox_internal.cursor;
    stood jsonb := '{}';
begin
    perform relaybox_internal.require_reason(reason, 'a replay is cancelled', 'cancel_replay(subscription, ''why'')');
    if subscription_.replay_of is not null then
        perform relaybox.unsubscribe(subscription_.subscription, reason);
        return subscription_.subscription;
    end if;
    -- the subscription before its lanes
    perform from relaybox_internal.subscription s where s.subscription_id = subscription_.subscription_id for no key update;
    for lane_ in 1..subscription_.lanes loop
        cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
        if cursor_.done_stream_position < cursor_.replay_stream_position then
            stood := stood || jsonb_build_object(lane_, cursor_.done_stream_position);
            perform relaybox_internal.move_cursor(relaybox_internal.reset_cursor(cursor_, cursor_.replay_stream_position));
        end if;
    end loop;
    if stood = '{}' then
        raise exception using errcode = 'RB036', message = format('subscription %s replays nothing', subscription_.subscription),
            hint = coalesce((
                select format('A second cursor is cancelled by its own name: %s.', string_agg(n.subscription, ', ' order by n.subscription))
                from relaybox_internal.subscription n where n.replay_of = subscription_.subscription_id and n.ended_at is null
            ), 'Nothing was changed. What was replayed and cancelled: select * from relaybox.consumer_action.');
    end if;
    update relaybox_internal.subscription s set rows_per_second = null where s.subscription_id = subscription_.subscription_id;
    perform relaybox_internal.record_action(subscription_.subscription, 'cancel_replay', reason, jsonb_build_object('done_stream_positions', stood));
    return subscription_.subscription;
end
$$;

comment on function relaybox.cancel_replay(text, text) is
'Ends a replay.
`subscription`: the name of a second cursor, which is closed; or a subscription whose lanes went back, which go on
    from their earlier stream positions.
`reason`: recorded in relaybox.consumer_action.
Returns the name that was given.
Errors: RB031 (not subscribed), RB036 (no reason, or the subscription replays nothing).';
