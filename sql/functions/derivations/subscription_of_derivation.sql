-- The subscription that reads for a derivation. Raises RB031 if somebody ended it, and what
-- subscription_named() raises.
create or replace function relaybox_internal.subscription_of_derivation(derivation_id_ integer)
returns relaybox_internal.subscription
language plpgsql volatile
as $$
declare
    read_by relaybox_internal.derivation;
    subscribed relaybox_internal.subscription;
begin
    select * into strict read_by from relaybox_internal.derivation d
    where d.derivation_id = derivation_id_;
    select * into strict subscribed from relaybox_internal.subscription s
    where s.subscription_id = read_by.subscription_id;
    if subscribed.ended_at is not null then
        raise exception using errcode = 'RB031',
            message = format(
                'subscription %s, which read for version %s of the derivation of route %s, ended at '
                '%s with stream position %s done', subscribed.subscription, read_by.version,
                read_by.route, subscribed.ended_at, subscribed.done_at_end
            ),
            hint = format(
                'Who and why: select * from relaybox.consumer_action order by action_id desc. '
                'To go on, give the derivation version %s in relaybox.yaml; without start it '
                'begins after that stream position.', read_by.version + 1
            );
    end if;
    return relaybox_internal.subscription_named(subscribed.subscription, gives_messages => true);
end
$$;
