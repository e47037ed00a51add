-- The stream that a subscription names as its source, by its own name or by a topic. Streams that carry
-- the topic come before those that only carried it. A topic that no stream carries or carried is asked
-- for in the one stream whose topics come by subscription: is_new_topic.
-- one_topic: the topic that is read; null: all of the stream. Raises RB032.
create or replace function relaybox_internal.find_source(
    source text, out stream_id integer, out one_topic text, out is_new_topic boolean
)
language plpgsql volatile
as $$
declare
    found_streams integer[];
begin
    is_new_topic := false;
    select s.stream_id into stream_id from relaybox_internal.stream s where s.stream = source;
    if found then
        if exists (
            select from relaybox_internal.known_topics t
            where t.stream_id <> find_source.stream_id and t.topic = source
                and t.carried_by <> 'nobody'
        ) then
            raise notice '% is a stream and a topic of another stream: this is the stream. '
                'docs/consuming.md, "A topic with the name of a stream"', source;
        end if;
        return;
    end if;
    one_topic := source;
    select coalesce(
        array_agg(t.stream_id) filter (where t.carried_by <> 'nobody'),
        array_agg(t.stream_id) filter (where not s.topics_by_subscription)
    ) into found_streams
    from relaybox_internal.known_topics t
    join relaybox_internal.stream s on s.stream_id = t.stream_id
    where t.topic = source;
    if found_streams is null and source ~ '^[a-z0-9_.-]{1,48}$' then
        select array_agg(s.stream_id) into found_streams
        from relaybox_internal.stream s where s.topics_by_subscription;
        if cardinality(found_streams) = 1 then
            is_new_topic := relaybox_internal.request_topic(found_streams[1], source);
            raise notice 'topic % is new; it is carried once its store of origin knows it. '
                'If it is mistyped: docs/consuming.md, "A mistyped topic"', source;
        else
            found_streams := null;
        end if;
    end if;
    if found_streams is null or cardinality(found_streams) > 1 then
        perform relaybox_internal.refuse_source(source, found_streams is not null);
    end if;
    stream_id := found_streams[1];
end
$$;
