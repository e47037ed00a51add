-- Gives up an open dead letter, of a stream or of a subscription, or a delayed message; the message
-- stays in the log. One of an ended subscription may also be redriving: an earlier version left it so
-- when it ended. Letters that waited behind it are redriven, if the subscription has not ended. Locks
-- the lane.
create or replace function relaybox.drop_dead_letter(dead_letter_id bigint, reason text)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    dropped relaybox_internal.dead_letter;
    subscription_ relaybox_internal.subscription;
    has_ended boolean;
begin
    perform relaybox_internal.require_reason(
        reason, 'a dead letter is dropped', 'drop_dead_letter(dead_letter_id, ''why'')'
    );
    -- before the lane is locked
    perform relaybox_internal.require_dead_letter_role(drop_dead_letter.dead_letter_id);
    perform from relaybox_internal.lane l
    join relaybox_internal.dead_letter d
        on d.subscription_id = l.subscription_id and d.lane = l.lane
    where d.dead_letter_id = drop_dead_letter.dead_letter_id
    for update of l;
    -- a later statement than the lock, which the end of a subscription takes too
    has_ended := exists (
        select from relaybox_internal.dead_letter d
        join relaybox_internal.subscription s using (subscription_id)
        where d.dead_letter_id = drop_dead_letter.dead_letter_id and s.ended_at is not null
    );
    update relaybox_internal.dead_letter d set
        state = 'dropped', resolved_at = clock_timestamp(), resolved_by = session_user,
        resolved_reason = drop_dead_letter.reason
    where d.dead_letter_id = drop_dead_letter.dead_letter_id
        and (d.state in ('open', 'delayed') or d.state = 'redriving' and has_ended)
    returning * into dropped;
    if not found then
        perform relaybox_internal.refuse_dead_letter(drop_dead_letter.dead_letter_id);
    end if;
    update relaybox_internal.dead_letter follower set state = 'redriving'
    where follower.subscription_id = dropped.subscription_id and follower.lane = dropped.lane
        and follower.sender = dropped.sender and follower.state = 'open' and not has_ended
        and follower.reason = 'waits_behind' and follower.stream_position > dropped.stream_position
        and not exists (
            select from relaybox_internal.dead_letter earlier
            where earlier.subscription_id = follower.subscription_id
                and earlier.lane = follower.lane and earlier.sender = follower.sender
                and earlier.state = 'open' and earlier.reason <> 'waits_behind'
                and earlier.stream_position < follower.stream_position
        );
    select s.* into subscription_ from relaybox_internal.subscription s
    where s.subscription_id = dropped.subscription_id and s.ended_at is null;
    if found then
        perform relaybox_internal.update_dead_letter_lanes(subscription_, array[dropped.lane]);
    end if;
    perform relaybox_internal.record_action(
        dropped.subscription_id, coalesce(
            (
                select s.subscription from relaybox_internal.subscription s
                where s.subscription_id = dropped.subscription_id
            ),
            (
                select s.stream from relaybox_internal.stream s
                where s.stream_id = dropped.stream_id
            )
        ),
        'drop', drop_dead_letter.reason, jsonb_build_object(
            'dead_letter_id', drop_dead_letter.dead_letter_id,
            'stream_position', dropped.stream_position, 'why_dead', dropped.reason
        )
    );
end
$$;

comment on function relaybox.drop_dead_letter(bigint, text) is
'Gives up an open dead letter, of a stream or of a subscription. Its message stays in the log.
Messages that waited behind it go on.
`dead_letter_id`: one of relaybox.dead_letters, also a delayed message that is not due.
`reason`: recorded there and in relaybox.consumer_action.
Errors: RB036 (no reason), RB037 (not open), RB040 (its subscription is bound to other
    roles).';
