-- Makes a stream carry a topic because a consumer subscribes to it. Returns whether this login asks
-- for it for the first time. Writes a row of the login's own: only its own sessions wait for one
-- that does not commit. Caller has found that nothing carries the topic.
create or replace function relaybox_internal.request_topic(stream_id_ integer, topic text)
returns boolean
language sql volatile
as $$
    with requested as (
        insert into relaybox_internal.topic_request (stream_id, topic, requested_by)
        values (stream_id_, request_topic.topic, session_user)
        on conflict on constraint topic_request_pkey do nothing
        returning 1
    )
    select exists (select from requested)
$$;
