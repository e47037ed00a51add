-- Locks a lane until the transaction ends and returns its newest cursor. Raises RB036 for a lane
-- that the subscription does not have, RB031 if the subscription has ended.
create or replace function relaybox_internal.lock_lane(
    subscription_ relaybox_internal.subscription, lane_ integer
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    newest relaybox_internal.cursor;
begin
    perform from relaybox_internal.lane l
    where l.subscription_id = subscription_.subscription_id and l.lane = lane_ for update;
    if not found and lane_ between 1 and subscription_.lanes then
        raise exception using errcode = 'RB031',
            message = format(
                'subscription %s was ended by another session just now',
                subscription_.subscription
            ),
            hint = 'Who and why: '
                || 'select * from relaybox.consumer_action order by action_id desc.';
    elsif not found then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s has lanes 1 to %s, no lane %s', subscription_.subscription,
                subscription_.lanes, coalesce(lane_::text, 'null')
            );
    end if;
    -- a later statement than the lock: it sees what was committed before the lock came free
    select * into newest from relaybox_internal.lane_cursors c
    where c.subscription_id = subscription_.subscription_id and c.lane = lane_;
    return newest;
end
$$;
