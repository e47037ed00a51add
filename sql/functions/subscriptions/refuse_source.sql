-- Says why a source is no stream or topic to subscribe to, and lists the streams and their topics.
-- Always raises RB032.
create or replace function relaybox_internal.refuse_source(source text, has_many_streams boolean)
returns void
language plpgsql stable
as $$
begin
    raise exception using errcode = 'RB032',
        message = format(
            case
                when has_many_streams then 'topic %s is carried by several streams; name one'
                when source !~ '^[a-z0-9_.-]{1,48}$' and exists (
                    select from relaybox_internal.stream s where s.topics_by_subscription
                )
                    then 'there is no stream and no topic %L in this store, and no new topic '
                        || 'can have this name: it must be 1 to 48 of a-z 0-9 _ . -'
                else 'there is no stream and no topic %s in this store'
            end,
            coalesce(left(source, 70), 'null')
        ),
        hint = 'Streams here: ' || coalesce((
            select string_agg(format('%s (%s)', s.stream, coalesce((
                select string_agg(t.topic, ', ' order by t.topic)
                from relaybox_internal.known_topics t where t.stream_id = s.stream_id
            ), '')), ', ' order by s.stream)
            from relaybox_internal.stream s
        ), 'none') || '.';
end
$$;
