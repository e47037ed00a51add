-- Ends a subscription and its replays. Their dead letters stay, with the stream positions of their
-- messages; messages that were passed and not acknowledged don't. Locks the subscriptions, then their
-- lanes.
create or replace function relaybox.unsubscribe(subscription text, reason text default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        unsubscribe.subscription, is_ending => true, is_operating => true
    );
    ended integer[];
    ended_at_positions jsonb; -- lane to the stream position that it had done
    done_by_all bigint;
begin
    perform relaybox_internal.require_length('the reason', reason, 4000);
    -- subscriptions before lanes, as all functions do; a later caller finds nothing to end
    perform from relaybox_internal.subscription s
    where s.ended_at is null and (
        s.subscription_id = subscription_.subscription_id
        or s.replay_of = subscription_.subscription_id
    )
    order by s.subscription_id
    for no key update;
    if not exists (
        select from relaybox_internal.subscription s
        where s.subscription_id = subscription_.subscription_id and s.ended_at is null
    ) then
        raise exception using errcode = 'RB031',
            message = format(
                'subscription %s was ended by another session just now',
                subscription_.subscription
            ),
            hint = 'Who and why: '
                || 'select * from relaybox.consumer_action order by action_id desc.';
    end if;
    ended := array(
        select s.subscription_id from relaybox_internal.subscription s
        where s.ended_at is null and (
            s.subscription_id = subscription_.subscription_id
            or s.replay_of = subscription_.subscription_id
        )
    );
    perform from relaybox_internal.lane l
    where l.subscription_id = any(ended) order by l.subscription_id, l.lane for update;
    select jsonb_object_agg(c.lane, c.done_stream_position), min(c.done_stream_position)
    into ended_at_positions, done_by_all
    from relaybox_internal.lane_cursors c
    where c.subscription_id = subscription_.subscription_id;
    -- what was passed and is not acknowledged is not done: the next subscription gets it again
    done_by_all := least(done_by_all, (
        select min(d.stream_position) - 1 from relaybox_internal.dead_letter d
        where d.subscription_id = subscription_.subscription_id and d.reason = 'delayed'
            and d.state in ('delayed', 'redriving')
    ));
    -- nobody waits for them any more, so they keep no segment
    delete from relaybox_internal.dead_letter d
    where d.subscription_id = any(ended) and d.reason = 'delayed'
        and d.state in ('delayed', 'redriving');
    -- no consumer will acknowledge them any more: they wait for a decision again
    update relaybox_internal.dead_letter d set state = 'open'
    where d.subscription_id = any(ended) and d.state = 'redriving';
    delete from relaybox_internal.cursor c where c.subscription_id = any(ended);
    delete from relaybox_internal.failed_attempt f where f.subscription_id = any(ended);
    delete from relaybox_internal.endpoint_failure f where f.subscription_id = any(ended);
    delete from relaybox_internal.lane l where l.subscription_id = any(ended);
    update relaybox_internal.subscription s set
        ended_at = clock_timestamp(),
        done_at_end = case when s.subscription_id = subscription_.subscription_id then done_by_all end
    where s.subscription_id = any(ended);
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription,
        case when subscription_.replay_of is null then 'unsubscribe' else 'cancel_replay' end,
        reason, jsonb_build_object('done_stream_positions', ended_at_positions)
    );
end
$$;

comment on function relaybox.unsubscribe(text, text) is
'Ends a subscription and its replays at once. Its name is free again; its dead letters stay, and
those that were being redriven are open again.
`subscription`: its name.
`reason`: recorded in relaybox.consumer_action; optional, at most 4,000 characters.
Errors: RB031 (not subscribed), RB036 (the reason is too long), RB040 (bound to
    other roles).';
