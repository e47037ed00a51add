-- Acknowledges a subscription with one lane through a stream position whose messages the caller has
-- read otherwise, by relaybox.read_stream(). Returns what is acknowledged now. Locks the lane, also
-- against a fetch. Raises what relaybox.fetch() and relaybox.ack() raise.
create or replace function relaybox_internal.ack_through(
    subscription_name text, through bigint, worker_ text
)
returns bigint
language plpgsql volatile
as $$
declare
    subscribed relaybox_internal.subscription
    := relaybox_internal.subscription_named(subscription_name);
    lane_cursor relaybox_internal.cursor;
begin
    loop
        lane_cursor := relaybox_internal.lock_lane(subscribed, 1);
        exit when lane_cursor.done_stream_position >= through;
        lane_cursor := relaybox_internal.take_lane(
            subscribed,
            least(through - lane_cursor.done_stream_position, 2147483647)::integer,
            null, null, 1, worker_
        );
        exit when lane_cursor.worker is null;
        perform relaybox.ack(
            subscription_name, coalesce(
                lane_cursor.redrive_stream_position,
                least(lane_cursor.fetched_stream_position, through)
            ), lane_cursor.token
        );
    end loop;
    return (relaybox_internal.lock_lane(subscribed, 1)).done_stream_position;
end
$$;
