-- Whether a lane of a subscription gets a message. Inlined: a subscription with one lane to all
-- topics gets everything, without a look at the message.
create or replace function relaybox_internal.takes_message(
    wanted_topic text, lanes integer, lane_by text, lane integer,
    topic text, sender text, key text
)
returns boolean
language sql immutable parallel safe
as $$
    select (wanted_topic is null or topic = wanted_topic)
        and (lanes = 1 or relaybox_internal.lane_of(lane_by, lanes, sender, key) = lane)
$$;
