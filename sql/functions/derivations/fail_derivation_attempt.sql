-- Records why an open attempt failed, and gives its messages back. With dead_letter its only message
-- becomes a dead letter of the derivation's subscription. False: the attempt has ended already, or
-- the store was restored to a time before it, and nothing is done. Locks the attempt and the lane.
create or replace function relaybox_internal.fail_derivation_attempt(
    derivation_id_ integer, attempt_ bigint, token_ text, reason_ text, dead_letter boolean
)
returns boolean
language plpgsql volatile
as $$
declare
    failed relaybox_internal.derivation_attempt;
    subscribed relaybox_internal.subscription;
begin
    update relaybox_internal.derivation_attempt a set
        state = 'failed', ended_at = clock_timestamp(), reason = left(reason_, 4000)
    where a.derivation_id = derivation_id_ and a.attempt = attempt_ and a.token = token_
        and a.state = 'open'
    returning * into failed;
    if failed.attempt is null then
        return false;
    end if;
    subscribed := relaybox_internal.subscription_of_derivation(derivation_id_);
    if dead_letter and failed.message_count = 1 then
        perform relaybox.nack(
            subscribed.subscription, lower(failed.stream_positions), reason_, failed.token
        );
    else
        perform relaybox.release(subscribed.subscription, failed.token);
    end if;
    return true;
end
$$;
