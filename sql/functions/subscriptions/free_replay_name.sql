-- A name for one more second cursor of a subscription, which no open subscription of this store
-- has: with n open subscriptions one of n + 1 numbers is free. Caller: holds the subscription.
create or replace function relaybox_internal.free_replay_name(
    subscription_ relaybox_internal.subscription
)
returns text
language sql stable
as $$
    with made as (
        select
            (
                select count(*) from relaybox_internal.subscription s
                where s.replay_of = subscription_.subscription_id
            ) as replays,
            (
                select count(*) from relaybox_internal.subscription s where s.ended_at is null
            ) as open_subscriptions
    )
    select name.free
    from made
    cross join lateral generate_series(
        made.replays + 1, made.replays + made.open_subscriptions + 1
    ) as number (n)
    cross join lateral (
        select relaybox_internal.second_cursor_name(subscription_.subscription, number.n) as free
    ) name
    where not exists (
        select from relaybox_internal.subscription s
        where s.subscription = name.free and s.ended_at is null
    )
    order by number.n
    limit 1
$$;
