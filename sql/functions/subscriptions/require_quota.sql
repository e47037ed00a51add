-- The session's role is within its quota, with the subscription that it has just made, and the
-- topic if it asked for a new one: the name is for the error. A login can't evade it with `set
-- role`. Superusers, the owner of the store and drivers are not asked (has_quota()): a driver calls
-- this with its own rights, and has none on the table of quotas. Locks the role's row until the
-- transaction ends, so that of several at once each counts the others; 40001 with a snapshot older
-- than one of them. Raises RB039.
create or replace function relaybox_internal.require_quota(subscription_name text, asks_for_topic boolean default false) returns void
language plpgsql volatile
as $$
declare
    asked name := session_user;
    used record;
begin
    if not relaybox_internal.has_quota(asked) then
        return;
    end if;
    insert into relaybox_internal.consumer_quota (role_name) values (asked)
    on conflict on constraint consumer_quota_pkey do update set checked_at = clock_timestamp();
    -- a later statement than the lock: it sees what was committed before it came free
    select * into used from relaybox_internal.count_quota(asked);
    if used.subscriptions > used.subscription_quota or used.lanes > used.lane_quota then
        raise exception using errcode = 'RB039',
            message = format(
                'subscription %s is refused: role %s would have %s subscriptions with %s lanes in this store, its quota is %s subscriptions ' ||
                    'with %s lanes',
                subscription_name, asked, used.subscriptions, used.lanes, used.subscription_quota, used.lane_quota
            ),
            hint = format(
                'Unsubscribe what is not needed (select * from relaybox.subscriptions where subscribed_by = %L), subscribe with fewer lanes, or '
                'have the owner of the store raise the quota: select relaybox.set_consumer_quota(SUBSCRIPTIONS, LANES, %L, topics => TOPICS).',
                asked, asked
            );
    end if;
    if asks_for_topic and used.topics > used.topic_quota then
        raise exception using errcode = 'RB039',
            message = format(
                'subscription %s is refused: role %s would have asked for %s topics in this store, its quota is %s topics',
                subscription_name, asked, used.topics, used.topic_quota
            ),
            hint = format(
                'A topic stays when its subscription ends (to remove a mistyped one: docs/consuming.md, "A mistyped topic"). Subscribe to a ' ||
                    'topic that the stream has, have relaybox.yaml name the topics, or have '
                'the owner of the store raise the quota: select relaybox.set_consumer_quota(SUBSCRIPTIONS, LANES, %L, topics => TOPICS).', asked
            );
    end if;
end
$$;
