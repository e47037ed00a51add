-- The number of subscriptions and lanes of a login and of topics that it asked for, and its quotas:
-- null for the owner, superusers and drivers, which have none.
create or replace function relaybox_internal.count_quota(
    role_name name,
    out subscriptions bigint, out subscription_quota integer,
    out lanes bigint, out lane_quota integer,
    out topics bigint, out topic_quota integer
)
language sql stable
as $$
    select
        used.subscriptions,
        case when login.has_quota then coalesce(q.subscriptions, s.subscriptions_per_role) end,
        used.lanes,
        case when login.has_quota then coalesce(q.lanes, s.lanes_per_role) end,
        (
            select count(*) from relaybox_internal.topic_request r
            where r.requested_by = count_quota.role_name::text and not exists (
                select from relaybox_internal.stream_topic t
                where t.stream_id = r.stream_id and t.topic = r.topic and t.carried_by = 'file'
            )
        ),
        case when login.has_quota then coalesce(q.topics, s.topics_per_role) end
    from relaybox_internal.store s
    cross join (select relaybox_internal.has_quota(count_quota.role_name) as has_quota) login
    cross join (
        select count(*) as subscriptions, coalesce(sum(n.lanes), 0) as lanes
        from relaybox_internal.subscription n
        where n.subscribed_by = count_quota.role_name::text and n.ended_at is null
    ) used
    left join relaybox_internal.consumer_quota q on q.role_name = count_quota.role_name
$$;
