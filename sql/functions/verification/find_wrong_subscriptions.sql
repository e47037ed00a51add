-- Subscriptions of a stream that ended and still have lanes, and those that read another topic than
-- they subscribed to. Inlined in check_decisions().
create or replace function relaybox_internal.find_wrong_subscriptions(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    select 'cursor_contradicts', 0::bigint,
        format(
            'subscription %s ended at %s, and %s of its lanes are here',
            n.subscription, n.ended_at, count(*)
        )
    from relaybox_internal.stream s
    join relaybox_internal.subscription n on n.stream_id = s.stream_id and n.ended_at is not null
    join relaybox_internal.lane k on k.subscription_id = n.subscription_id
    where s.stream = stream_name
    group by n.subscription_id, n.subscription, n.ended_at
    union all
    select 'cursor_contradicts', 0,
        format(
            'subscription %s reads %s; it subscribed to %s',
            n.subscription, coalesce('topic ' || n.topic, 'every topic'), subscribed.source
        )
    from relaybox_internal.stream s
    join relaybox_internal.subscription n
        on n.stream_id = s.stream_id and n.ended_at is null and n.replay_of is null
    cross join lateral (
        select k.detail ->> 'source' as source
        from relaybox_internal.consumer_action k
        where k.subscription = n.subscription and k.action = 'subscribe'
        order by k.action_id desc
        limit 1
    ) subscribed
    where s.stream = stream_name and n.topic is distinct from nullif(subscribed.source, s.stream)
$$;
