-- Raises RB041 if a message that fetch is about to return has a topic that the caller may not read.
-- For subscriptions to all topics of a stream, as require_delivered_topics(); of a lane, the messages
-- of other lanes in between count too.
create or replace function relaybox_internal.require_fetched_topics(
    subscription_ relaybox_internal.subscription, lane_cursor relaybox_internal.cursor
)
returns void
language plpgsql stable
as $$
declare
    refused record;
begin
    if lane_cursor.redrive_stream_position is null then
        perform relaybox_internal.require_delivered_topics(
            subscription_.stream_id, lane_cursor.done_stream_position,
            lane_cursor.fetched_stream_position
        );
        return;
    end if;
    select r.stream_position, r.topic into refused
    from relaybox_internal.read_redriven(lane_cursor) r
    where not exists (
        select from relaybox_internal.allowed_topics a where a.topic in (r.topic, '*')
    )
    limit 1;
    if found then
        perform relaybox_internal.refuse_topics(array[refused.topic], format(
            ', which the dead letter at stream position %s has', refused.stream_position
        ));
    end if;
end
$$;
