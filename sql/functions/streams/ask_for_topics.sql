-- Makes a stream carry topics because the next store down the route asks for them. Returns how many
-- it did not carry. Idempotent. Waits for no consumer: requests of consumers have rows of their own
-- (request_topic).
create or replace function relaybox_internal.ask_for_topics(stream_id_ integer, topics text[])
returns integer
language sql volatile
as $$
    with asked as (
        insert into relaybox_internal.stream_topic as k (stream_id, topic, carried_by)
        select stream_id_, t.topic, 'subscription' from unnest(topics) as t (topic)
        on conflict on constraint stream_topic_pkey do update set carried_by = 'subscription'
        where k.carried_by = 'nobody'
        returning 1
    )
    select count(*)::integer from asked
$$;
