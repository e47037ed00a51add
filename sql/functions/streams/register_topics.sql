-- Tells which topics a stream carries besides those that it has carried before. Idempotent.
create or replace function relaybox.register_topics(stream_name text, topics text[]) returns void
language sql volatile
as $$
    insert into relaybox.stream_topic (stream_id, topic)
    select s.stream_id, t.topic from relaybox.stream s, unnest(topics) as t (topic) where s.stream = stream_name
    on conflict do nothing
$$;
