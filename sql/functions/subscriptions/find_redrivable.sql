-- An open dead letter of a subscription that may be redriven alone, or a delayed message. Raises RB037 if it is not open,
-- of another subscription or of a stream, or waits behind an earlier one of its sender. Caller:
-- holds the lanes.
create or replace function relaybox_internal.find_redrivable(
    subscription_ relaybox_internal.subscription, dead_letter_id_ bigint
)
returns relaybox_internal.dead_letter
language plpgsql stable
as $$
declare
    wanted relaybox_internal.dead_letter;
    earlier bigint;
begin
    select * into wanted from relaybox_internal.dead_letter d
    where d.dead_letter_id = dead_letter_id_
        and d.subscription_id = subscription_.subscription_id and d.state in ('open', 'delayed');
    if not found then
        perform relaybox_internal.refuse_dead_letter_of_stream(dead_letter_id_);
        perform relaybox_internal.refuse_dead_letter(dead_letter_id_);
    end if;
    select d.dead_letter_id into earlier from relaybox_internal.dead_letter d
    where subscription_.hold_sender and d.subscription_id = subscription_.subscription_id
        and d.sender = wanted.sender and d.lane = wanted.lane
        and d.stream_position < wanted.stream_position and d.state = 'open'
    order by d.stream_position limit 1;
    if earlier is not null then
        raise exception using errcode = 'RB037',
            message = format(
                'dead letter %s waits behind dead letter %s of the same sender',
                dead_letter_id_, earlier
            ),
            hint = 'Redrive or drop that one first: '
                || 'the subscription keeps the order of each sender.';
    end if;
    return wanted;
end
$$;
