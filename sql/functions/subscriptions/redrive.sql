-- Gives dead letters of a subscription to its consumers again. Letters of a sender that wait behind
-- a redriven one follow it. Locks all lanes of the subscription.
create or replace function relaybox.redrive(
    subscription text, reason text, dead_letter_id bigint default null
)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        redrive.subscription, gives_messages => true, is_operating => true
    );
    wanted relaybox_internal.dead_letter;
    redriven bigint;
    changed integer[];
begin
    perform relaybox_internal.require_reason(
        reason, 'dead letters are redriven', 'redrive(subscription, ''why'')'
    );
    if redrive.dead_letter_id is not null then
        perform relaybox_internal.require_dead_letter_role(redrive.dead_letter_id);
    end if;
    perform relaybox_internal.require_approval(
        format('redrive dead letters of subscription %s', subscription_.subscription), 'redrive'
    );
    perform from relaybox_internal.lane l
    where l.subscription_id = subscription_.subscription_id order by l.lane for update;
    if redrive.dead_letter_id is not null then
        wanted := relaybox_internal.find_redrivable(subscription_, redrive.dead_letter_id);
    end if;
    with redriving as (
        update relaybox_internal.dead_letter d set state = 'redriving'
        where d.subscription_id = subscription_.subscription_id and (
            d.state = 'open' or d.state = 'delayed' and d.dead_letter_id = redrive.dead_letter_id
        ) and (
            redrive.dead_letter_id is null
            or d.dead_letter_id = redrive.dead_letter_id
            or subscription_.hold_sender and d.sender = wanted.sender and d.lane = wanted.lane
            and d.reason = 'waits_behind' and d.stream_position < coalesce((
                select min(next_letter.stream_position)
                from relaybox_internal.dead_letter next_letter
                where next_letter.subscription_id = subscription_.subscription_id
                    and next_letter.sender = wanted.sender and next_letter.lane = wanted.lane
                    and next_letter.state = 'open' and next_letter.reason <> 'waits_behind'
                    and next_letter.stream_position > wanted.stream_position
            ), 9223372036854775807)
        )
        returning d.lane
    )
    select count(*), array_agg(distinct r.lane order by r.lane) into redriven, changed
    from redriving r;
    perform relaybox_internal.update_dead_letter_lanes(subscription_, changed);
    perform relaybox_internal.record_action(
        subscription_.subscription_id, subscription_.subscription, 'redrive', reason,
        jsonb_build_object('dead_letter_id', redrive.dead_letter_id, 'count', redriven)
    );
    perform relaybox_internal.wake_consumers(subscription_.stream_id);
    return redriven;
end
$$;

comment on function relaybox.redrive(text, text, bigint) is
'Gives open dead letters of a subscription to its consumers again, before new messages, in the order
of their stream positions. With hold_sender, letters that wait behind one follow it.
`subscription`: its name. `reason`: recorded in relaybox.consumer_action.
`dead_letter_id`: one of relaybox.dead_letters, also a delayed message that is not due; null: all open
    ones.
Returns the number of dead letters.
Errors: RB031 (not subscribed), RB036 (no reason), RB037 (not open, waits behind another one, or of
    the stream itself), RB040 (bound to other roles), RB041 (a topic that the role may
    not read), RB042 (needs an approval).';
