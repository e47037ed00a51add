-- Raises RB041 if this store grants topics to roles and the caller may not read one topic of a
-- stream, or without one_topic: may not read every topic that the stream carries or carried.
create or replace function relaybox_internal.require_topics(stream_id_ integer, one_topic text)
returns void
language plpgsql stable
as $$
declare
    allowed text[] := array(select a.topic from relaybox_internal.allowed_topics a);
    carried text[] := array[one_topic];
    refused text[];
begin
    if '*' = any(allowed) or one_topic = any(allowed) then
        return;
    end if;
    if one_topic is null then
        carried := array(
            select k.topic from relaybox_internal.known_topics k where k.stream_id = stream_id_
        );
        if carried = '{}' then
            carried := '{*}';
        end if;
    end if;
    refused := array(
        select c.topic from unnest(carried) as c (topic)
        where c.topic <> all(allowed) order by c.topic
    );
    if refused <> '{}' then
        perform relaybox_internal.refuse_topics(refused, coalesce(format(
            ' of stream %s',
            (select s.stream from relaybox_internal.stream s where s.stream_id = stream_id_)
        ), ''));
    end if;
end
$$;
