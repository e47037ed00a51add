-- The session's role is within its quota, with the subscription that it has just made, and the topic if it asked for a new one: the name is
-- for the error. A login can't evade it with `set role`. Superusers and the owner of the store are not asked. Locks the role's row until the
-- transaction ends, so that of several at once each counts the others; 40001 with a snapshot older than one of them. Raises RB039.
create or replace function relaybox.require_quota(subscription_name text, asks_for_topic boolean default false) returns void
language plpgsql volatile
as $$
declare
    asked name := session_user;
    quota record;
    used record;
begin
    if pg_has_role(asked, (select c.relowner from pg_class c where c.oid = 'relaybox.subscription'::regclass), 'usage') then
        return;
    end if;
    insert into relaybox.consumer_quota (role_name) values (asked)
    on conflict on constraint consumer_quota_pkey do update set checked_at = clock_timestamp();
    -- later statements than the lock: they see what was committed before it came free
    select
        coalesce(q.subscriptions, s.subscriptions_per_role) as subscriptions, coalesce(q.lanes, s.lanes_per_role) as lanes,
        coalesce(q.topics, s.topics_per_role) as topics
    into quota
    from relaybox.store s cross join relaybox.consumer_quota q
    where q.role_name = asked;
    select
        count(*) as subscriptions, sum(s.lanes) as lanes,
        (
            select count(*) from relaybox.topic_request r
            where r.requested_by = asked::text and not exists (
                select from relaybox.stream_topic t where t.stream_id = r.stream_id and t.topic = r.topic and t.carried_by = 'file'
            )
        ) as topics
    into used
    from relaybox.subscription s
    where s.subscribed_by = asked::text and s.ended_at is null;
    if used.subscriptions > quota.subscriptions or used.lanes > quota.lanes then
        raise exception using errcode = 'RB039',
            message = format(
                'subscription %s is refused: role %s would have %s subscriptions with %s lanes in this store, its quota is %s subscriptions with %s lanes',
                subscription_name, asked, used.subscriptions, used.lanes, quota.subscriptions, quota.lanes
            ),
            hint = format(
                'Unsubscribe what is not needed (select * from relaybox.subscriptions where subscribed_by = %L), subscribe with fewer lanes, or '
                'have the owner of the store raise the quota: select relaybox.set_consumer_quota(SUBSCRIPTIONS, LANES, %L, topics => TOPICS).', asked, asked
            );
    end if;
    if asks_for_topic and used.topics > quota.topics then
        raise exception using errcode = 'RB039',
            message = format(
                'subscription %s is refused: role %s would have asked for %s topics in this store, its quota is %s topics',
                subscription_name, asked, used.topics, quota.topics
            ),
            hint = format(
                'A topic stays when its subscription ends. Subscribe to a topic that the stream has, have relaybox.yaml name the topics, or have '
                'the owner of the store raise the quota: select relaybox.set_consumer_quota(SUBSCRIPTIONS, LANES, %L, topics => TOPICS).', asked
            );
    end if;
end
$$;
