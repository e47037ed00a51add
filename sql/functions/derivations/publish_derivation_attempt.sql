-- Ends a locked attempt whose messages the caller's transaction has put into the outbox, and
-- acknowledges what they were derived from: in the same transaction, so both or neither. Raises
-- RB035 if a later attempt has fetched, RB031 if the subscription has ended, RB021 if the sender is
-- declared: a hop would set its messages aside, since they carry no index.
create or replace function relaybox_internal.publish_derivation_attempt(
    derivation_id_ integer, attempt_ bigint, sender_ text, derived_count_ bigint,
    first_seq_ bigint, last_seq_ bigint
)
returns void
language plpgsql volatile
as $$
declare
    attempt relaybox_internal.derivation_attempt;
    declared relaybox_internal.sender;
    subscribed relaybox_internal.subscription
    := relaybox_internal.subscription_of_derivation(derivation_id_);
begin
    set local synchronous_commit = on;
    perform relaybox_internal.refuse_unlogged();
    select * into declared from relaybox_internal.sender s
    where s.origin = (select o.store from relaybox_internal.store o) and s.sender = sender_
    order by s.epoch desc
    limit 1;
    if declared.kind is not null and derived_count_ > 0 then
        raise exception using errcode = 'RB021',
            message = format(
                'sender %s is declared %s in this store, and derived messages carry no index',
                sender_, declared.kind
            ),
            hint = 'Nothing was sent. Give the derivation a sender of its own (derive: sender).';
    end if;
    select * into strict attempt from relaybox_internal.derivation_attempt a
    where a.derivation_id = derivation_id_ and a.attempt = attempt_;
    perform relaybox.ack(
        subscribed.subscription, upper(attempt.stream_positions) - 1, attempt.token
    );
    update relaybox_internal.derivation_attempt a set
        state = 'published', ended_at = clock_timestamp(), derived_count = derived_count_,
        first_seq = first_seq_, last_seq = last_seq_
    where a.derivation_id = derivation_id_ and a.attempt = attempt_;
end
$$;
