-- Puts a lane of a new subscription where it was in a store that was lost: done through a stream
-- position. Raises RB031, RB036 if the lane has moved already.
create or replace function relaybox_internal.restore_cursor(
    subscription text, lane_ integer, done_stream_position_ bigint
)
returns void
language plpgsql volatile
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(restore_cursor.subscription);
    cursor_ relaybox_internal.cursor := relaybox_internal.lock_lane(subscription_, lane_);
begin
    if cursor_.version > 1 or done_stream_position_ < cursor_.done_stream_position then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s, lane %s has moved since it was made; '
                || 'it is done through stream position %s',
                subscription_.subscription, lane_, cursor_.done_stream_position
            );
    end if;
    if done_stream_position_ > cursor_.done_stream_position then
        cursor_.done_stream_position := done_stream_position_;
        cursor_.fetched_stream_position := done_stream_position_;
        perform relaybox_internal.move_cursor(cursor_);
    end if;
end
$$;
