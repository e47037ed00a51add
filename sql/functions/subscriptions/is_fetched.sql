-- Whether a stream position within the fetch of a lane is a message of this lane that is not set
-- aside.
create or replace function relaybox_internal.is_fetched(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription,
    stream_position_ bigint
)
returns boolean
language sql stable
as $$
    select case when cursor_.redrive_stream_position is null
        then stream_position_ <> all(relaybox_internal.set_aside_stream_positions(
            subscription_, stream_position_ - 1, stream_position_
        )) and exists (
            select
            from relaybox_internal.message_at(subscription_.stream_id, stream_position_) m
            where relaybox_internal.takes_message(
                subscription_.topic, subscription_.lanes, subscription_.lane_by, cursor_.lane,
                m.topic, m.sender, m.key
            )
        )
        else exists (
            select from relaybox_internal.dead_letter d
            where d.subscription_id = cursor_.subscription_id and d.lane = cursor_.lane
                and d.state = 'redriving' and d.stream_position = stream_position_
        )
    end
$$;
