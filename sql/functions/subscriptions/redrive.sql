-- Gives dead letters of a subscription to its consumers again, all open ones or one, in the order
-- of their stream positions. Where later messages of a sender wait behind a dead letter, they
-- follow it. Returns how many. Raises RB031, RB036 without a reason, RB037 if it can't be.
create or replace function relaybox.redrive(subscription text, reason text, dead_letter_id bigint default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    subscription_ relaybox_internal.subscription := relaybox_internal.subscription_named(redrive.subscription);
    wanted relaybox_internal.dead_letter;
    earlier bigint;
    redriven bigint;
    changed integer[];
begin
    perform relaybox_internal.require_reason(reason, 'dead letters are redriven', 'redrive(subscription, ''why'')');
    perform from relaybox_internal.lane l where l.subscription_id = subscription_.subscription_id order by l.lane for update;
    if redrive.dead_letter_id is not null then
        select * into wanted from relaybox_internal.dead_letter d
        where d.dead_letter_id = redrive.dead_letter_id and d.subscription_id = subscription_.subscription_id and d.state = 'open';
        if not found then
            perform relaybox_internal.refuse_dead_letter_of_stream(redrive.dead_letter_id);
            perform relaybox_internal.refuse_dead_letter(redrive.dead_letter_id);
        end if;
        select d.dead_letter_id into earlier from relaybox_internal.dead_letter d
        where subscription_.hold_sender and d.subscription_id = subscription_.subscription_id and d.sender = wanted.sender and d.lane = wanted.lane
            and d.stream_position < wanted.stream_position and d.state = 'open'
        order by d.stream_position limit 1;
        if earlier is not null then
            raise exception using errcode = 'RB037',
                message = format('dead letter %s waits behind dead letter %s of the same sender', redrive.dead_letter_id, earlier),
                hint = 'Redrive or drop that one first: the subscription keeps the order of each sender.';
        end if;
    end if;
    with again as (
        update relaybox_internal.dead_letter d set state = 'redriving'
        where d.subscription_id = subscription_.subscription_id and d.state = 'open'
            and (
                redrive.dead_letter_id is null or d.dead_letter_id = redrive.dead_letter_id
                or (subscription_.hold_sender and d.sender = wanted.sender and d.lane = wanted.lane and d.reason = 'waits_behind'
                    and d.stream_position < coalesce((
                    select min(n.stream_position) from relaybox_internal.dead_letter n
                    where n.subscription_id = subscription_.subscription_id and n.sender = wanted.sender and n.lane = wanted.lane
                        and n.state = 'open' and n.reason <> 'waits_behind' and n.stream_position > wanted.stream_position
                ), 9223372036854775807))
            )
        returning d.lane
    )
    select count(*), array_agg(distinct a.lane order by a.lane) into redriven, changed from again a;
    perform relaybox_internal.update_dead_letter_lanes(subscription_, changed);
    perform relaybox_internal.record_action(subscription_.subscription, 'redrive', reason,
    jsonb_build_object('dead_letter_id', redrive.dead_letter_id, 'count', redriven));
    return redriven;
end
$$;

comment on function relaybox.redrive(text, text, bigint) is
'Gives open dead letters of a subscription to its consumers again, before new messages, in the order of their stream positions.
`subscription`: its name. `reason`: recorded in relaybox.consumer_action.
`dead_letter_id`: one of relaybox.dead_letters; null: all open ones.
Returns how many.
Errors: RB031 (not subscribed), RB036 (no reason), RB037 (not open, waits behind another one, or the stream''s own).';
