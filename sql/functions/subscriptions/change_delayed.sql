-- Changes what becomes of the messages behind one that is not due, from the next fetch on. Messages that
-- were passed still come when they are due, or at once with `ignore`. Locks the subscription, then all
-- its lanes.
create or replace function relaybox.change_delayed(subscription text, delayed text, reason text)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(change_delayed.subscription, is_operating => true);
    cursor_ relaybox_internal.cursor;
    changed integer[];
begin
    perform relaybox_internal.require_reason(
        reason, 'what becomes of delayed messages is changed',
        'change_delayed(subscription, ''pass'', ''why'')'
    );
    if subscription_.replay_of is not null or subscription_.query is not null then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s reads history: it gives delayed messages at once, whatever is asked for',
                subscription_.subscription
            );
    end if;
    perform relaybox_internal.require_settings(
        subscription_.subscription, subscription_.lanes, subscription_.lane_by,
        subscription_.nack_limit, subscription_.crash_limit, subscription_.hold_sender,
        subscription_.retry_seconds, subscription_.lease_seconds, change_delayed.delayed
    );
    update relaybox_internal.subscription s set delayed = change_delayed.delayed
    where s.subscription_id = subscription_.subscription_id;
    for lane_ in 1..subscription_.lanes loop
        cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
        cursor_.due_at := null;
        perform relaybox_internal.move_cursor(cursor_);
    end loop;
    if change_delayed.delayed = 'ignore' then
        with given as (
            update relaybox_internal.dead_letter d set state = 'redriving'
            where d.subscription_id = subscription_.subscription_id and d.state = 'delayed'
            returning d.lane
        )
        select array_agg(distinct g.lane order by g.lane) into changed from given g;
        perform relaybox_internal.update_dead_letter_lanes(subscription_, changed);
    end if;
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription, 'change_delayed', reason,
        jsonb_build_object('delayed', change_delayed.delayed, 'before', subscription_.delayed)
    );
    perform relaybox_internal.wake_consumers(subscription_.stream_id);
    return subscription_.delayed;
end
$$;

comment on function relaybox.change_delayed(text, text, text) is
'Changes what a subscription does with messages that are not due, from its next fetch on. Messages that
it passed before still come when they are due, or at once with ignore.
`subscription`: its name. `delayed`: hold, pass or ignore, as in relaybox.subscribe.
`reason`: recorded in relaybox.consumer_action.
Returns what it was before.
Errors: RB031 (not subscribed), RB036 (no reason, a value that is not allowed, or a subscription that
    reads history), RB040 (bound to other roles).';
