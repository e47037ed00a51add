-- Gives dead letters of a subscription to its consumers again, all open ones or one, in the order of their places. Where later messages of
-- a sender wait behind a dead letter, they follow it. Returns how many. Raises RB031, RB036 without a reason, RB037 if it can't be.
create or replace function relaybox.redrive(subscription text, reason text, letter bigint default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(redrive.subscription);
    wanted relaybox.dead_letter;
    earlier bigint;
    redriven bigint;
    changed integer[];
begin
    perform relaybox.require_reason(reason, 'dead letters are redriven', 'redrive(subscription, ''why'')');
    perform from relaybox.lane l where l.subscription_id = known.subscription_id order by l.lane for update;
    if letter is not null then
        select * into wanted from relaybox.dead_letter d
        where d.dead_letter_id = letter and d.subscription_id = known.subscription_id and d.state = 'open';
        if not found then
            perform relaybox.refuse_letter_of_stream(letter);
            perform relaybox.refuse_letter(letter);
        end if;
        select d.dead_letter_id into earlier from relaybox.dead_letter d
        where known.hold_sender and d.subscription_id = known.subscription_id and d.sender = wanted.sender and d.lane = wanted.lane
            and d.place < wanted.place and d.state = 'open'
        order by d.place limit 1;
        if earlier is not null then
            raise exception using errcode = 'RB037',
                message = format('dead letter %s waits behind dead letter %s of the same sender', letter, earlier),
                hint = 'Redrive or drop that one first: the subscription keeps the order of each sender.';
        end if;
    end if;
    with again as (
        update relaybox.dead_letter d set state = 'redriving'
        where d.subscription_id = known.subscription_id and d.state = 'open'
            and (
                letter is null or d.dead_letter_id = letter
                or (known.hold_sender and d.sender = wanted.sender and d.lane = wanted.lane and d.reason = 'waits_behind' and d.place < coalesce((
                    select min(n.place) from relaybox.dead_letter n
                    where n.subscription_id = known.subscription_id and n.sender = wanted.sender and n.lane = wanted.lane
                        and n.state = 'open' and n.reason <> 'waits_behind' and n.place > wanted.place
                ), 9223372036854775807))
            )
        returning d.lane
    )
    select count(*), array_agg(distinct a.lane order by a.lane) into redriven, changed from again a;
    perform relaybox.letters_changed(known, changed);
    perform relaybox.record_action(known.subscription, 'redrive', reason, jsonb_build_object('letter', letter, 'count', redriven));
    return redriven;
end
$$;

comment on function relaybox.redrive(text, text, bigint) is
'Gives open dead letters of a subscription to its consumers again, before new messages, in the order of their places.
`subscription`: its name. `reason`: recorded in relaybox.consumer_action.
`letter`: one of relaybox.dead_letters; null: all open ones.
Returns how many.
Errors: RB031 (not subscribed), RB036 (no reason), RB037 (not open, waits behind another one, or the stream''s own).';
