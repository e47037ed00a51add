-- Ends a replay: closes a second cursor that is named, or moves the lanes of a subscription forward
-- to where they were before the replay, and ends its limit of the rate. Locks the subscription,
-- then its lanes.
create or replace function relaybox.cancel_replay(subscription text, reason text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(cancel_replay.subscription, is_operating => true);
    lane_ integer;
    cursor_ relaybox_internal.cursor;
    cancelled_at jsonb := '{}'; -- lane to the stream position that it had done
begin
    perform relaybox_internal.require_reason(
        reason, 'a replay is cancelled', 'cancel_replay(subscription, ''why'')'
    );
    if subscription_.replay_of is not null then
        perform relaybox.unsubscribe(subscription_.subscription, reason);
        return subscription_.subscription;
    end if;
    -- the subscription before its lanes
    perform from relaybox_internal.subscription s
    where s.subscription_id = subscription_.subscription_id for no key update;
    for lane_ in 1..subscription_.lanes loop
        cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
        if cursor_.done_stream_position < cursor_.replay_stream_position then
            cancelled_at := cancelled_at || jsonb_build_object(
                lane_, cursor_.done_stream_position
            );
            perform relaybox_internal.move_cursor(
                relaybox_internal.reset_cursor(cursor_, cursor_.replay_stream_position)
            );
        end if;
    end loop;
    if cancelled_at = '{}' then
        raise exception using errcode = 'RB036',
            message = format('subscription %s replays nothing', subscription_.subscription),
            hint = coalesce((
                select format(
                    'A second cursor is cancelled by its own name: %s.',
                    string_agg(second.subscription, ', ' order by second.subscription)
                )
                from relaybox_internal.subscription second
                where second.replay_of = subscription_.subscription_id
                    and second.ended_at is null
                having count(*) > 0
            ), 'Nothing was changed. What was replayed and cancelled: '
                || 'select * from relaybox.consumer_action.');
    end if;
    update relaybox_internal.subscription s set rows_per_second = null
    where s.subscription_id = subscription_.subscription_id;
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription, 'cancel_replay', reason,
        jsonb_build_object('done_stream_positions', cancelled_at)
    );
    return subscription_.subscription;
end
$$;

comment on function relaybox.cancel_replay(text, text) is
'Ends a replay.
`subscription`: the name of a second cursor, which is closed; or a subscription whose lanes went
    back: they go on from where they were before the replay.
`reason`: recorded in relaybox.consumer_action.
Returns the name that was given.
Errors: RB031 (not subscribed), RB036 (no reason, or the subscription replays nothing),
    RB040 (bound to other roles).';
