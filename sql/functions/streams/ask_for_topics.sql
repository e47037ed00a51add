-- Has a stream carry topics because consumers ask for them. Returns how many it did not carry. Idempotent.
-- asked_by: the login whose quota the topics count for; null: the next store down passes on what its consumers asked for.
create or replace function relaybox.ask_for_topics(stream_id_ integer, topics text[], asked_by text default null) returns integer
language sql volatile
as $$
    with asked as (
        insert into relaybox.stream_topic as k (stream_id, topic, carried_by, asked_by)
        select stream_id_, t.topic, 'subscription', ask_for_topics.asked_by from unnest(topics) as t (topic)
        on conflict on constraint stream_topic_pkey do update set carried_by = 'subscription', asked_by = excluded.asked_by
        where k.carried_by = 'nobody'
        returning 1
    )
    select count(*)::integer from asked
$$;
