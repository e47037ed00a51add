-- Records which topics the file gives a stream. Topics that it has carried before stay known. With
-- topics_by_subscription, a topic that the file does not name any more is carried by nobody, even
-- if a consumer asked for it before. Idempotent. Waits for no consumer (request_topic).
create or replace function relaybox_internal.register_topics(stream_name text, topics text[])
returns void
language plpgsql volatile
as $$
begin
    insert into relaybox_internal.stream_topic as k (stream_id, topic)
    select s.stream_id, t.topic
    from relaybox_internal.stream s, unnest(topics) as t (topic) where s.stream = stream_name
    on conflict on constraint stream_topic_pkey do update set carried_by = 'file'
    where k.carried_by <> 'file';
    -- also for a topic that leaves the file: a request may have been committed after the init that
    -- named it
    delete from relaybox_internal.topic_request r
    using relaybox_internal.stream s, relaybox_internal.stream_topic k
    where s.stream = stream_name and r.stream_id = s.stream_id and k.stream_id = s.stream_id
        and k.topic = r.topic and k.carried_by = 'file';
    update relaybox_internal.stream_topic k set
        carried_by = 'nobody',
        left_after_subscription = (select max(n.subscription_id) from relaybox_internal.subscription n)
    from relaybox_internal.stream s
    where s.stream = stream_name and s.topics_by_subscription and k.stream_id = s.stream_id
        and k.carried_by = 'file' and k.topic <> all(topics);
end
$$;
