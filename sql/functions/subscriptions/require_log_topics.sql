-- Raises RB041 if the caller may not read every topic of a log: of the stream that reads it, and of
-- the messages between two positions, as require_delivered_topics(). Raises 42501 below a
-- maintenance command.
create or replace function relaybox_internal.require_log_topics(
    source relaybox_internal.hop_in, after_position bigint, through_position bigint
)
returns void
language plpgsql stable
as $$
declare
    allowed text[] := array(select a.topic from relaybox_internal.allowed_topics a);
    refused record;
begin
    perform relaybox_internal.refuse_borrowed_session();
    if '*' = any(allowed) then
        return;
    end if;
    select l.log_position, l.topic into refused from relaybox_internal.log l
    where l.log_id = source.log_id
        and l.log_position > after_position and l.log_position <= through_position
        and l.topic <> all(allowed)
    order by l.log_position
    limit 1;
    if found then
        perform relaybox_internal.refuse_topics(array[refused.topic], format(
            ', which the message at position %s of hop %s has', refused.log_position, source.hop
        ));
    end if;
    perform relaybox_internal.require_topics(l.stream_id, null)
    from relaybox_internal.stream_log l where l.log_id = source.log_id;
end
$$;
