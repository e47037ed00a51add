-- Raises RB041 if this store grants topics to roles and the caller may not read the source that it
-- subscribes to: a stream with all its topics, or one topic. Before find_source(), which asks for new
-- topics. A source that can be neither is left to find_source().
create or replace function relaybox_internal.require_source_topics(source text) returns void
language plpgsql stable
as $$
declare
    stream_id_ integer := (
        select s.stream_id from relaybox_internal.stream s where s.stream = source
    );
begin
    perform relaybox_internal.refuse_borrowed_session();
    if stream_id_ is not null then
        perform relaybox_internal.require_topics(stream_id_, null);
    elsif source ~ '^[a-z0-9_.-]{1,48}$' and not exists (
        select from relaybox_internal.allowed_topics a where a.topic in (source, '*')
    ) then
        perform relaybox_internal.refuse_topics(array[source]);
    end if;
end
$$;
